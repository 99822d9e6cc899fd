"""What a trace says about a job, before anybody has decided how fast that job runs.

A record keeps the words of the file it came from: the devices somebody asked for, how long the job then took, perhaps
a model. Turning it into a :class:`~penstock.core.Job`, which needs a curve and an amount of work, is the business of
``convert``.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from pathlib import Path

from penstock.core import TraceError


class Ending(StrEnum):
    """What became of a job where it really ran."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    RUNNING = "running"
    """It is not over, or was not when the file was written."""
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, word: str) -> "Ending":
        """From the word of a cluster's log: Slurm's states, Kubernetes' phases, our own."""
        lowered = word.strip().lower()
        return next((ending for ending, words in _WORDS.items() if lowered.startswith(words)), cls.UNKNOWN)


_WORDS: Mapping[Ending, tuple[str, ...]] = {
    Ending.COMPLETED: ("complete", "succe", "finished", "pass"),
    Ending.CANCELLED: ("cancel", "killed", "preempt", "stopped"),
    Ending.FAILED: ("fail", "node_fail", "timeout", "out_of_mem", "oom", "error"),
    Ending.RUNNING: ("running", "pending", "suspended"),
}
"""How the words begin that logs have for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One job of a trace. Times are seconds since the start of the trace.

    ``duration_s`` is the run time on ``devices`` devices; it or ``iterations`` may be unknown, and both only where
    profiles tell the work of a whole training. Without a ``deadline`` the job is best effort; a ``soft`` one is worth
    something late, as much as ``then`` says: later deadlines and the share of its value that is left by then. ``kinds``
    are the device models the file allows, none meaning any. A ``rigid`` job runs on exactly the devices it asks for.

    How the cluster that the file comes from treated the job stands in ``waited_s`` (for its devices; None where the
    file does not say) and ``ending``; a simulation asks for neither. ``type`` is what its owner called it.
    """

    id: str
    submitted_at: float
    devices: int = 1
    duration_s: float | None = None
    iterations: float | None = None
    model: str = ""
    batch: int = 0
    deadline: float | None = None
    tenant: str = "default"
    kinds: tuple[str, ...] = ()
    rigid: bool = False
    soft: bool = False
    then: tuple[tuple[float, float], ...] = ()
    waited_s: float | None = None
    ending: Ending = Ending.UNKNOWN
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Jobs in order of submission, ties in file order, and how many rows were left out for which reason."""

    name: str
    format: str
    jobs: tuple[TraceJob, ...]
    skipped: tuple[tuple[str, int], ...] = ()

    @classmethod
    def assemble(
        cls, source: str, format_name: str, jobs: Iterable[TraceJob], skipped: Mapping[str, int] | None = None
    ) -> "Trace":
        """A trace of the jobs read from the file ``source``; ``skipped`` is looked at after the last of them."""
        ordered = tuple(sorted(jobs, key=attrgetter("submitted_at")))
        reasons = tuple((skipped or {}).items())
        if not ordered:
            raise TraceError(
                f"{source} holds no job" + _left_out(reasons),
                "at least one row after the header",
                "Check that the file was written to the end",
            )
        return cls(name=trace_name(source), format=format_name, jobs=ordered, skipped=reasons)

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[TraceJob]:
        return iter(self.jobs)


def trace_name(source: str) -> str:
    """The file's name without folder and format: "traces/195job.csv.gz" is "195job"."""
    return (
        Path(source)
        .name.removesuffix(".gz")
        .removesuffix(".csv")
        .removesuffix(".jsonl")
        .removesuffix(".trace")
        .removesuffix(".json")
    )


def _left_out(reasons: tuple[tuple[str, int], ...]) -> str:
    counts = ", ".join(f"{count} with {reason}" for reason, count in reasons)
    return f" that can be used (left out: {counts})" if counts else ""
