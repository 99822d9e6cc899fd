"""What a decision costs: nothing, as in the public ElasticFlow simulator, as measured, or as stated.

``none``: rescheduling is free. ``artifact``: the model of the public simulator (github.com/pkusys/ElasticFlow): every
running job loses a base time at every decision, changed or not, more if its exact set of devices was not used
since the last restart, and much more at a restart; see :class:`ArtifactCosts`. ``measured``: only jobs whose devices
change pause, for as long as ElasticFlow measured on A100s (Gu et al., ASPLOS'23, figure 12).
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from penstock.core import (
    Cluster,
    InputError,
    Job,
    Overhead,
    Span,
    TraceError,
    UnitError,
    UnknownNameError,
    parse_duration,
)
from penstock.policies import Floats
from penstock.scheduler import CostedRound, CostModel, ExpectedCosts
from penstock.simulate.replicas.elasticflow.overhead import Restarts, seconds
from penstock.simulate.traces.files import Row, Table, read_lines

_WIDEST = 64
MEASURED_CHANGE_S = 4.2
"""The slowest of the measured rescalings and migrations (bert, 8 to 16 devices); the fastest was 0.7 s."""


class ArtifactCosts:
    """Charges what the public simulator charges.

    A device set counts as known once it has been used. Every ``slot``-th decision is a restart: sets that are new in
    that very decision pay for it, and afterwards all sets are forgotten.
    """

    def __init__(self, devices: int, slot: float) -> None:
        self._devices = devices
        self._restarts = Restarts(max(int(slot), 1))
        self._known: set[tuple[int, ...]] = set()
        self._forgot = False
        self._base = seconds(1, devices, cached=True)
        change = seconds(1, devices)
        self.overhead = Overhead(
            every_round_s=self._base, change_s=change, per_doubling_s=seconds(2, devices) - change,
            worst_s=seconds(_WIDEST, devices, restart=True),
        )  # fmt: skip

    def pauses(self, decision: CostedRound) -> Floats:
        restart = self._restarts.due()
        pauses = np.where(decision.widths > 0, self._base, 0.0)
        suspects = decision.widths > 0 if self._forgot else decision.changed
        for row in suspects.nonzero()[0].tolist():
            devices = decision.devices_of(row)
            if devices not in self._known:
                self._known.add(devices)
                pauses[row] = seconds(len(devices), self._devices, restart=restart)
        self._forgot = restart
        if restart:
            self._known.clear()
        return pauses


class Metered:
    """Passes a cost model through and adds up what it charged."""

    def __init__(self, costs: CostModel) -> None:
        self._costs = costs
        self.overhead = costs.overhead
        self.device_seconds = 0.0

    def pauses(self, decision: CostedRound) -> Floats:
        pauses = self._costs.pauses(decision)
        self.device_seconds += float(pauses @ decision.widths)
        return pauses


_MODELS: dict[str, Callable[[Cluster, float], CostModel]] = {
    "none": lambda _cluster, _slot: ExpectedCosts(),
    "artifact": lambda cluster, slot: ArtifactCosts(cluster.device_count, slot),
    "measured": lambda _cluster, _slot: ExpectedCosts(Overhead(change_s=MEASURED_CHANGE_S, worst_s=MEASURED_CHANGE_S)),
}
OVERHEADS = tuple(_MODELS)


def costs_named(name: str, cluster: Cluster, slot: float) -> CostModel:
    """A fresh cost model by name, or of costs such as "change=17s,per-doubling=9s"."""
    return OverheadModel.parse(name).costs(cluster, slot)


_PARTS = ("change", "per-doubling", "every", "start", "resize", "end", "checkpoint-every", "file")
_GUIDE = 'Try "measured", "change=17s,per-doubling=9s,start=30s" or "file=costs.csv" (docs/studies.md)'
_FILE_COLUMNS = ("model", "devices", "start", "resize", "end", "checkpoint_every")
_MOST_ROWS = 10_000
_ALLOWED = "more than nothing, a week at most"


@dataclass(frozen=True, slots=True)
class _OwnCosts:
    """What starting, changing and ending cost jobs of a model that ask for so many devices or more."""

    model: str = ""
    devices: int = 1
    start: float | None = None
    resize: float | None = None
    end: float | None = None
    checkpoint_every: float | None = None

    def of(self, job: Job) -> Job:
        own, given = job.costs, (("start", self.start), ("resize", self.resize), ("end", self.end))
        costs = replace(own, **{name: Span(each, each) for name, each in given if each is not None})
        return replace(job, costs=costs, checkpoint_every_s=self.checkpoint_every or job.checkpoint_every_s)


@dataclass(frozen=True, slots=True)
class OverheadModel:
    """What decisions and restarts cost, from a text: a name, or costs and a file of costs by model and size.

    A decision costs jobs whose devices change ``change`` seconds and ``per-doubling`` more for every doubling of their
    devices, and every running job ``every``. ``start``, ``resize`` and ``end`` are what a job loses by itself. A row of
    a file holds for jobs of its model (any, if empty) that ask for at least its devices. What a row with a model or
    with more devices states takes the place of what others state.

    >>> OverheadModel.parse("change=17s,per-doubling=9s").overhead
    Overhead(every_round_s=0.0, change_s=17.0, per_doubling_s=9.0, worst_s=71.0)
    """

    text: str
    overhead: Overhead | None = None
    own: tuple[_OwnCosts, ...] = ()
    digest: str = ""
    """Of the content of a file."""

    @classmethod
    def parse(cls, text: str) -> "OverheadModel":
        if text in _MODELS:
            return cls(text)
        if "=" in text:
            return cls._of_parts(text)
        raise UnknownNameError.of("overhead model", text, OVERHEADS, _GUIDE)

    @classmethod
    def _of_parts(cls, text: str) -> "OverheadModel":
        given: dict[str, float] = {}
        file = ""
        for part in text.split(","):
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if key not in _PARTS:
                raise UnknownNameError.of("part of --overhead", key, _PARTS, _GUIDE)
            if key in given or not (equals and value):
                raise InputError(f"{part.strip()!r} in the overhead {text!r}", "each part once, as NAME=TIME", _GUIDE)
            if key == "file":
                file, given[key] = value, 0.0
                continue
            given[key] = parse_duration(value)
            if given[key] > _MOST_S or (key == "checkpoint-every" and not given[key]):
                raise InputError(f"{part.strip()!r} in the overhead {text!r}", _ALLOWED, _GUIDE)
        change, doubling = given.get("change", 0.0), given.get("per-doubling", 0.0)
        overhead = Overhead(
            every_round_s=given.get("every", 0.0), change_s=change, per_doubling_s=doubling,
            worst_s=change + doubling * math.log2(_WIDEST),
        )  # fmt: skip
        own = _OwnCosts(
            start=given.get("start"), resize=given.get("resize"), end=given.get("end"),
            checkpoint_every=given.get("checkpoint-every"),
        )  # fmt: skip
        rows, digest = _rows_of(file) if file else ((), "")
        return cls(text, overhead, (own, *rows), digest)

    def costs(self, cluster: Cluster, slot: float) -> CostModel:
        """A fresh cost model."""
        return _MODELS[self.text](cluster, slot) if self.overhead is None else ExpectedCosts(self.overhead)

    def charged(self, job: Job) -> Job:
        """The job with what starting, changing and ending costs it."""
        for own in self.own:
            if own.model in ("", job.model) and own.devices <= job.requested:
                job = own.of(job)
        return job


def _rows_of(text: str) -> tuple[tuple[_OwnCosts, ...], str]:
    """The rows of a file, the more specific ones last, and a digest of it."""
    lines = list(islice(read_lines(Path(text)), _MOST_ROWS + 2))
    if len(lines) > _MOST_ROWS + 1:
        raise TraceError(f"{text} has more than {_MOST_ROWS:,} rows", "as many at most")
    table = Table.from_csv(text, lines)
    for name in table.header:
        if name not in _FILE_COLUMNS:
            raise UnknownNameError.of(f"column in {text}:", name, _FILE_COLUMNS, "docs/studies.md describes the file")
    rows, seen = [], set[tuple[str, int]]()
    for row in table.rows():
        given = {name: _cell(row, name, at) for at, name in enumerate(table.header) if row.text(at)}
        rows.append(own := _OwnCosts(**given))  # type: ignore[arg-type]
        if (own.model, own.devices) in seen:
            row.refuse(0, "every model and number of devices once")
        seen.add((own.model, own.devices))
    digest = hashlib.blake2b("".join(lines).encode(), digest_size=8).hexdigest()
    return tuple(sorted(rows, key=lambda own: (own.model, own.devices))), digest


_MOST_S = 7 * 86400.0


def _cell(row: Row, name: str, column: int) -> str | int | float:
    if name == "model":
        return row.text(column)
    if name == "devices":
        return row.count(column)
    try:
        seconds = parse_duration(row.text(column))
    except UnitError:
        row.refuse(column, 'a duration such as "90s" or "5m"')
    if seconds > _MOST_S or (name == "checkpoint_every" and not seconds):
        row.refuse(column, _ALLOWED)
    return seconds
