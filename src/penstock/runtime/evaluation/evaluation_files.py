"""The directory that the workers of one evaluation share: the plan, who has taken what, raw outputs and results.

Everything is whole or not there: plans and claims come about by making a name that nobody has made yet, results by a
rename. A *world* is one set of workers that live together; its claims lie in a folder of its own, so a shard that was
taken by workers who are gone is free again, and one that has a result is never done twice.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.core import CodecError, InputError, build, plain
from penstock.runtime.evaluation.packing import SetTime, Shard
from penstock.tools import partial_path, write_atomically

_PLAN, _TIMES, _LOAD = "plan.json", "times.json", "load"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardResult:
    """What came of one shard, or of a metric step: metrics, and how many seconds it took."""

    values: Mapping[str, float]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTimes:
    """How long an evaluation took: to load the model, and of each data set as ``SetTime`` has it."""

    load_s: float = 0.0
    sets: tuple[SetTime, ...] = ()

    def of(self, name: str) -> SetTime | None:
        return next((each for each in self.sets if each.name == name), None)


class EvaluationFiles:
    """One evaluation's directory, seen by a worker of ``world``."""

    def __init__(self, directory: Path, world: str) -> None:
        self.directory = directory
        self._results = directory / "results"
        self._metrics = directory / "metrics"
        self._outputs = directory / "outputs"
        self._claims = directory / "claims" / world
        for folder in (self._results, self._metrics, self._outputs, self._claims):
            folder.mkdir(parents=True, exist_ok=True)

    def agree_on(self, shards: Iterable[Shard]) -> list[Shard]:
        """The shards of this evaluation: those of whoever came first, also in a world before this one."""
        path = self.directory / _PLAN
        draft = partial_path(path)
        draft.write_text(json.dumps([plain(shard) for shard in shards]))
        try:
            with suppress(FileExistsError):
                os.link(draft, path)
        finally:
            draft.unlink()
        agreed = self.plan()
        assert agreed is not None
        return agreed

    def plan(self) -> list[Shard] | None:
        """What the workers agreed on, once they have."""
        try:
            text = (self.directory / _PLAN).read_text()
        except FileNotFoundError:
            return None
        return [build(Shard, each) for each in json.loads(text)]

    def claim(self, what: str) -> bool:
        """Whether this worker is the first of its world to want it."""
        try:
            os.close(os.open(self._claims / what, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666))
        except FileExistsError:
            return False
        return True

    def output(self, shard: Shard, *, apart: bool) -> Path:
        """Where the raw outputs of a shard go; ``apart`` in a folder of its own."""
        folder = self.outputs(shard, apart=apart)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / _named(shard)

    def outputs(self, shard: Shard, *, apart: bool) -> Path:
        """The folder with the raw outputs of a data set, whose names are in the order of its samples, or of a shard."""
        return self._outputs / shard.set / _named(shard) if apart else self._outputs / shard.set

    def keep_result(self, number: int, result: ShardResult) -> None:
        write_atomically(self._results / str(number), json.dumps(plain(result)))

    def results(self) -> dict[int, ShardResult]:
        """What is done so far, by the number of the shard."""
        return {int(name): _result(self._results / name) for name in _names(self._results)}

    def done(self) -> set[int]:
        """The numbers of the shards that have a result."""
        return {int(name) for name in _names(self._results)}

    def keep_metrics(self, name: str, result: ShardResult) -> None:
        """What a metric step found, of a data set by its name or of a shard by its number, and how long it took."""
        write_atomically(self._metrics / name, json.dumps(plain(result)))

    def metrics(self) -> dict[str, ShardResult]:
        return {name: _result(self._metrics / name) for name in _names(self._metrics)}

    def scored(self) -> set[str]:
        """The names of the metric steps that have a result."""
        return set(_names(self._metrics))

    def keep_load_time(self, seconds: float) -> None:
        """How long a worker took to load the model."""
        write_atomically(self.directory / _LOAD, repr(seconds))

    def load_time(self) -> float:
        """Zero where nobody has loaded it."""
        with suppress(OSError, ValueError):
            return float((self.directory / _LOAD).read_text())
        return 0.0

    def keep_times(self, times: KnownTimes) -> None:
        """For the evaluation of the next checkpoint."""
        write_atomically(self.directory / _TIMES, json.dumps(plain(times)))


def read_times(directory: str) -> KnownTimes:
    """What an earlier evaluation took; nothing where it cannot be read, because it only makes the packing better."""
    if directory:
        with suppress(OSError, ValueError, CodecError, AttributeError, InputError):
            times: KnownTimes = build(KnownTimes, _read(Path(directory) / _TIMES))
            return times
    return KnownTimes()


def _named(shard: Shard) -> str:
    return f"{shard.start:012d}"


def _result(path: Path) -> ShardResult:
    found: ShardResult = build(ShardResult, _read(path))
    return replace(found, values={name: float(value) for name, value in found.values.items()})


def _names(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


def _read(path: Path) -> Any:
    return json.loads(path.read_text())
