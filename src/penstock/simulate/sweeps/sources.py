"""Where the jobs of a study come from: a trace file, thinned or thickened to a load, or a recipe and a seed."""

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from penstock.core import Cluster, InputError, UnknownNameError
from penstock.simulate.traces import Profiles, Trace, TraceJob, generate, interval_for_load, read_trace

GENERATED = "generate:"
_GUIDE = 'Try "generate:jobs=500,load=1.5"'


class WorkloadSource(Protocol):
    """Gives the jobs of one run."""

    @property
    def draws(self) -> bool:
        """Whether another seed gives other jobs."""

    @property
    def needs_tables(self) -> bool:
        """Whether throughput tables say how fast any of the jobs are."""

    def trace(self, load: float | None, seed: int, cluster: Cluster, profiles: Profiles) -> Trace:
        """The jobs under a load; ``None`` is the load as it is."""

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
    multiple of the cluster.

    >>> TraceRecipe.parse("generate:jobs=500,load=1.5").jobs
    500
    """

    jobs: int = 500
    load: float = 0.8
    deadlines: tuple[float, float] = (0.5, 1.5)
    best_effort: float = 0.0
    daily_swing: float = 0.0
    tenants: int = 1
    draws = True
    needs_tables = True

    @classmethod
    def parse(cls, text: str) -> "TraceRecipe":
        given: dict[str, Any] = {}
        for part in filter(None, text.removeprefix(GENERATED).split(",")):
            key, _, value = (piece.strip() for piece in part.partition("="))
            reader = _READERS.get(key)
            if reader is None:
                raise UnknownNameError.of("part of a recipe", key, _READERS, _GUIDE)
            try:
                given[key.replace("-", "_")] = reader(value)
            except ValueError:
                raise InputError(f"{part.strip()!r} in the recipe {text!r}", "a number", _GUIDE) from None
        return cls(**given)

    def trace(self, load: float | None, seed: int, cluster: Cluster, profiles: Profiles) -> Trace:
        asked = self.load if load is None else load
        jobs = generate(
            self.jobs, seed=seed, profiles=profiles, lambda_range=self.deadlines, best_effort=self.best_effort,
            daily_swing=self.daily_swing, tenants=self.tenants,
            mean_interval_s=interval_for_load(asked, cluster.device_count),
        )  # fmt: skip
        return Trace(name=f"{self.jobs} generated jobs, load {asked:g}", format="generated", jobs=tuple(jobs))

    def identity(self) -> dict[str, Any]:
        return {
            "trace": "generated", "jobs": self.jobs, "load": self.load, "deadlines": list(self.deadlines),
            "best_effort": self.best_effort, "daily_swing": self.daily_swing, "tenants": self.tenants,
        }  # fmt: skip


def source_named(text: str) -> WorkloadSource:
    """A recipe if the text begins with ``generate:``, else the file of that name."""
    return TraceRecipe.parse(text) if text.startswith(GENERATED) else TraceFile(Path(text))


def _bounds(text: str) -> tuple[float, float]:
    low, _, high = text.partition("..")
    return float(low), float(high or low)


_READERS: dict[str, Any] = {
    "jobs": int, "load": float, "deadlines": _bounds, "best-effort": float, "daily-swing": float, "tenants": int,
}  # fmt: skip


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
