"""Where the jobs of a study come from: a trace file, thinned or thickened to a load, or a recipe and a seed."""

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from penstock.core import ANY_KIND, Cluster, Curve, Event, InputError, NodeJoined, NodeLost, UnknownNameError
from penstock.simulate.traces import (
    SIZES,
    Profiles,
    Trace,
    TraceEvents,
    TraceJob,
    exponential_draw,
    gang_sizes,
    generate,
    interval_for_load,
    read_trace,
    uniform_draw,
    with_gangs,
)
from penstock.simulate.workload import Workload

GENERATED = "generate:"
_GUIDE = 'Try "generate:jobs=500,load=1.5" or "generate:hard"'
_LEASED_S, _AWAY_S = 6 * 3600.0, 2 * 3600.0
"""How long leased nodes stay and are away on average."""
_SHORTEST_LEASE_S = 1800.0
_MOST_JOBS = 10_000_000


class WorkloadSource(Protocol):
    """Gives the jobs of one run."""

    @property
    def draws(self) -> bool:
        """Whether another seed gives other jobs."""

    @property
    def needs_tables(self) -> bool:
        """Whether throughput tables say how fast any of the jobs are."""

    def tables(self, profiles: Profiles, cluster: Cluster, seed: int) -> Profiles:
        """How fast the jobs run on the kinds of a cluster."""

    def trace(self, load: float | None, seed: int, cluster: Cluster, profiles: Profiles) -> Trace:
        """The jobs under a load; ``None`` is the load as it is."""

    def events(self, trace: Trace, cluster: Cluster, seed: int) -> list[Event]:
        """What happens besides, in order of time."""

    def identity(self) -> dict[str, Any]:
        """What makes results comparable: plain values."""


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file. Under a load of 2 its jobs come twice as fast, each with as much time until its deadline as it had."""

    path: Path

    @property
    def draws(self) -> bool:
        """Jobs without a model are given one of those that fit."""
        return any(not job.batch and not job.rigid for job in _read(self.path))

    @property
    def needs_tables(self) -> bool:
        return not all(job.rigid and job.duration_s for job in _read(self.path))

    def tables(self, profiles: Profiles, cluster: Cluster, seed: int) -> Profiles:  # noqa: ARG002
        return profiles

    def events(self, trace: Trace, cluster: Cluster, seed: int) -> list[Event]:  # noqa: ARG002
        return []

    def trace(self, load: float | None, seed: int, cluster: Cluster, profiles: Profiles) -> Trace:  # noqa: ARG002
        trace = _read(self.path)
        if load is None or load == 1.0:
            return trace
        if not load > 0:
            raise InputError(f"a load of {load:g}", "above 0; 2 lets the jobs of a file come twice as fast")
        first = trace.jobs[0].submitted_at
        return replace(trace, jobs=tuple(_moved(job, first + (job.submitted_at - first) / load) for job in trace))

    def identity(self) -> dict[str, Any]:
        return {"trace": self.path.name, "content": hashlib.blake2b(self.path.read_bytes(), digest_size=8).hexdigest()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecipe:
    """A synthetic trace per seed, as ``penstock trace generate`` makes it; ``load`` is what its jobs ask for, as a
    multiple of the cluster. ``generate:hard`` begins with the settings in :data:`PRESETS`.

    ``skew``, ``burst``, ``gangs`` and ``tight`` are those of :func:`generate`. With ``kinds`` every model runs on each
    kind of the cluster but the first at so many times its speed, drawn per model and kind. ``leases`` is the share of
    the nodes that come and go, each time with an end that is known in advance.

    >>> TraceRecipe.parse("generate:jobs=500,load=1.5").jobs, TraceRecipe.parse("generate:hard,jobs=50").jobs
    (500, 50)
    """

    jobs: int = 500
    load: float = 0.8
    deadlines: tuple[float, float] = (0.5, 1.5)
    best_effort: float = 0.0
    daily_swing: float = 0.0
    tenants: int = 1
    skew: float = 0.0
    burst: float = 1.0
    gangs: float = 0.0
    tight: float = 0.0
    kinds: tuple[float, float] | None = None
    leases: float = 0.0
    draws = True
    needs_tables = True

    def __post_init__(self) -> None:
        if not 1 <= self.jobs <= _MOST_JOBS:
            raise InputError(f"{self.jobs} jobs in a recipe", f"1 to {_MOST_JOBS:,}", _GUIDE)
        if not 0 <= self.leases < 1:
            raise InputError(f"leases={100 * self.leases:g}% in a recipe", "0% up to, not including, 100%", _GUIDE)
        if self.kinds is not None and not 0 < self.kinds[0] <= self.kinds[1] <= 10:
            raise InputError(f"kinds={self.kinds[0]:g}..{self.kinds[1]:g} in a recipe", "0 < low <= high <= 10",
                             "Try kinds=0.3..1")  # fmt: skip

    @classmethod
    def parse(cls, text: str) -> "TraceRecipe":
        first, _, rest = text.removeprefix(GENERATED).partition(",")
        given = dict(PRESETS.get(first.strip(), {}))
        for part in filter(None, (rest if given else text.removeprefix(GENERATED)).split(",")):
            key, _, value = (piece.strip() for piece in part.partition("="))
            reader = _READERS.get(key)
            if reader is None:
                raise UnknownNameError.of("part of a recipe", key, (*PRESETS, *_READERS), _GUIDE)
            try:
                given[key.replace("-", "_")] = reader(value)
            except ValueError:
                raise InputError(
                    f"{part.strip()!r} in the recipe {text!r}", _ALLOWED.get(key, "a number"), _GUIDE
                ) from None
        return cls(**given)

    def trace(self, load: float | None, seed: int, cluster: Cluster, profiles: Profiles) -> Trace:
        asked, sizes = self.load if load is None else load, with_gangs(SIZES, self.gangs, gang_sizes(cluster))
        jobs = generate(
            self.jobs, seed=seed, profiles=profiles, lambda_range=self.deadlines, best_effort=self.best_effort,
            daily_swing=self.daily_swing, tenants=self.tenants, skew=self.skew, burst=self.burst, gangs=self.gangs,
            tight=self.tight, cluster=cluster,
            mean_interval_s=interval_for_load(asked, cluster.device_count, sizes=sizes),
        )  # fmt: skip
        return Trace(name=f"{self.jobs} generated jobs, load {asked:g}", format="generated", jobs=tuple(jobs))

    def tables(self, profiles: Profiles, cluster: Cluster, seed: int) -> Profiles:
        """The tables with a speed for every kind of the cluster, where ``kinds`` asks for that."""
        if self.kinds is None or len(cluster.kinds) == 1:
            return profiles
        if profiles.kinds != {ANY_KIND}:
            raise InputError(
                f"kinds={self.kinds[0]:g}..{self.kinds[1]:g} with {profiles.name}, which says how fast kinds are",
                "tables that hold on any kind", "Leave out kinds, or --profiles",
            )  # fmt: skip
        low, high = self.kinds

        def factor(model: str, kind: str) -> float:
            drawn = uniform_draw(seed, "speed on a kind", f"{model}/{kind}")
            return 1.0 if kind == cluster.kinds[0] else low + (high - low) * drawn

        curves = {
            (model, batch): Curve(
                tuple((kind, curve.scalings[0][1].scaled(factor(model, kind))) for kind in cluster.kinds)
            )
            for (model, batch), curve in profiles.curves.items()
        }
        return Profiles(profiles.name, curves, profiles.work)

    def events(self, trace: Trace, cluster: Cluster, seed: int) -> list[Event]:
        """Leased nodes join with a known end, leave then, and come back for good after the last submission."""
        events: list[Event] = []
        names = [node for _, node in cluster.present()]
        chosen = [node for at, node in enumerate(names) if int((at + 1) * self.leases) > int(at * self.leases)]
        last = trace.jobs[-1].submitted_at
        for node in chosen:
            at, number = trace.jobs[0].submitted_at, 0
            while True:
                stays = _SHORTEST_LEASE_S + exponential_draw(seed, f"lease {number}", node.name, _LEASED_S)
                if at + stays > last:
                    events.append(NodeJoined(at, node))
                    break
                events += [NodeJoined(at, node, at + stays), NodeLost(at + stays, node.name)]
                at += stays + exponential_draw(seed, f"away {number}", node.name, _AWAY_S)
                number += 1
        return sorted(events, key=lambda event: event.at)

    def identity(self) -> dict[str, Any]:
        return {
            "trace": "generated", "jobs": self.jobs, "load": self.load, "deadlines": list(self.deadlines),
            "best_effort": self.best_effort, "daily_swing": self.daily_swing, "tenants": self.tenants,
            "skew": self.skew, "burst": self.burst, "gangs": self.gangs, "tight": self.tight,
            "kinds": list(self.kinds) if self.kinds else None, "leases": self.leases,
        }  # fmt: skip


def workload_of(
    source: WorkloadSource,
    cluster: Cluster,
    profiles: Profiles,
    *,
    load: float | None = None,
    seed: int = 0,
    events: TraceEvents | None = None,
    **options: Any,
) -> Workload:
    """The jobs of a source on a cluster, and what happens besides; ``options`` are other fields of the workload."""
    tables = source.tables(profiles, cluster, seed)
    trace = source.trace(load, seed, cluster, tables)
    besides = [*source.events(trace, cluster, seed), *(events.bind(cluster, trace.jobs) if events else ())]
    besides.sort(key=lambda event: event.at)
    return Workload(trace=trace, profiles=tables, seed=seed, events=besides, **options)


def source_named(text: str) -> WorkloadSource:
    """A recipe if the text begins with ``generate:``, else the file of that name."""
    return TraceRecipe.parse(text) if text.startswith(GENERATED) else TraceFile(Path(text))


def _bounds(text: str) -> tuple[float, float]:
    low, _, high = text.partition("..")
    return float(low), float(high or low)


def _share(text: str) -> float:
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


_READERS: dict[str, Any] = {
    "jobs": int, "load": float, "deadlines": _bounds, "best-effort": _share, "daily-swing": _share, "tenants": int,
    "skew": float, "burst": float, "gangs": _share, "tight": _share, "kinds": _bounds, "leases": _share,
}  # fmt: skip
_ALLOWED = {
    "deadlines": "LOW..HIGH", "kinds": "LOW..HIGH", "jobs": "a whole number", "tenants": "a whole number",
    **dict.fromkeys(("best-effort", "daily-swing", "gangs", "tight", "leases"), "a percentage or a number"),
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "hard": {
        "load": 1.5, "best_effort": 0.2, "tenants": 8, "skew": 1.2, "burst": 8.0, "gangs": 0.03, "tight": 0.5,
        "kinds": (0.3, 1.0), "leases": 0.25,
    },
}  # fmt: skip
"""Named settings of recipes; what is given besides takes their place."""


def _read(path: Path) -> Trace:
    """The jobs of a file, read once for as long as it is the same file with the same content."""
    try:
        found = path.stat()
    except OSError:
        return read_trace(path)
    return _read_once(path, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))


@lru_cache(maxsize=4)
def _read_once(path: Path, _version: tuple[int, ...]) -> Trace:
    return read_trace(path)


def _moved(job: TraceJob, submitted_at: float) -> TraceJob:
    shift = submitted_at - job.submitted_at
    return replace(
        job, submitted_at=submitted_at, deadline=None if job.deadline is None else job.deadline + shift
    )  # fmt: skip
