"""A trace together with the curves its jobs follow: everything a comparison needs to know about the jobs."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core import Job
from penstock.simulate.traces import Profiles, Trace, jobs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs to be scheduled. ``deadlines`` draws missing ones as multiples of the duration; ``caps`` bounds widths."""

    trace: Trace
    profiles: Profiles
    seed: int = 0
    deadlines: tuple[float, float] | None = None
    caps: bool = False

    def jobs(self) -> Sequence[Job]:
        return list(
            jobs_of(self.trace, self.profiles, seed=self.seed, deadlines=self.deadlines, caps=self.caps)
        )  # fmt: skip
