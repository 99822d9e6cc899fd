"""A trace together with the curves its jobs follow: everything a comparison needs to know about the jobs."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core import Job
from penstock.simulate.traces import Profiles, Trace, TraceJob, jobs_of, with_deadline, with_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs to be scheduled. ``deadlines`` draws missing ones as multiples of the duration; ``caps`` bounds widths."""

    trace: Trace
    profiles: Profiles
    seed: int = 0
    deadlines: tuple[float, float] | None = None
    caps: bool = False

    def records(self) -> Sequence[TraceJob]:
        """The trace with every job's model, duration and deadline filled in."""
        records = [with_model(record, self.profiles, seed=self.seed) for record in self.trace]
        if self.deadlines is None:
            return records
        return [with_deadline(record, self.deadlines, seed=self.seed) for record in records]

    def jobs(self) -> Sequence[Job]:
        return list(
            jobs_of(self.trace, self.profiles, seed=self.seed, deadlines=self.deadlines, caps=self.caps)
        )  # fmt: skip
