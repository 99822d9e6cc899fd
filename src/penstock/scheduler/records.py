"""Where a job stands, and what the scheduler remembers of it besides its row."""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.core import LATE_TOLERANCE_S, Job, Quote, Verdict
from penstock.scheduler.story import Story

UNEXPLAINED_BREACH = "nothing outside the scheduler is known to have caused it"


class JobState(StrEnum):
    """The life of a job; the last four are final."""

    ASKING = "asking"
    """Submitted, not answered, or answered "not yet"; it may already run on free devices."""
    PENDING = "pending"
    """Admitted, has never run."""
    RUNNING = "running"
    SUSPENDED = "suspended"
    """Ran before, holds nothing now."""
    PAUSED = "paused"
    """Taken out of scheduling by a person; it asks again when it is resumed."""
    FINISHING = "finishing"
    """Has given its devices back for good; what is left of it needs none."""
    FINISHED = "finished"
    DECLINED = "declined"
    CANCELLED = "cancelled"
    FAILED = "failed"


FINAL = frozenset({JobState.FINISHED, JobState.DECLINED, JobState.CANCELLED, JobState.FAILED})


WITHOUT_ROW = FINAL | {JobState.PAUSED, JobState.FINISHING}
"""Whoever wants no devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What a paused job has behind it and ahead of it: the columns of its row that survive a pause."""

    remaining: float
    progressed: float
    corrected: float
    executed: float
    attained: float
    deserved: float = 0.0
    waited_s: float = 0.0
    suspensions: int = 0


@dataclass(slots=True)
class Record:
    """What is known of one job.

    ``excuse`` is the first thing outside the policy that endangered its promise; ``ended_lease`` is the first lease
    whose end stopped it, which is no excuse: that was known when the promise was made. One that was ``amended`` asks
    again although it had been taken in; it may be promised nothing then, but it is not turned away any more.
    """

    job: Job
    key: int
    kind: str
    state: JobState = JobState.ASKING
    quote: Quote | None = None
    has_run: bool = False
    excuse: str = ""
    ended_lease: str = ""
    paused: Service | None = None
    amended: bool = False
    story: Story | None = field(default=None, repr=False)

    @property
    def has_row(self) -> bool:
        """Whether it wants devices, now or later, or holds some: then it is in the table of jobs."""
        return self.state not in WITHOUT_ROW

    @property
    def promised(self) -> bool:
        return self.quote is not None and self.quote.verdict is Verdict.PROMISED

    def breach(self, at: float) -> str:
        """Why the promise is broken if the job ends at a time; empty if it is kept or nothing was promised."""
        if not self.promised or at - self.job.deadline <= LATE_TOLERANCE_S:
            return ""
        return self.excuse or self.ended_lease or UNEXPLAINED_BREACH

    def copy(self) -> "Record":
        """The same without its story."""
        return Record(
            self.job, self.key, self.kind, self.state, self.quote, self.has_run, self.excuse,
            self.ended_lease, self.paused, self.amended,
        )  # fmt: skip

    def tell(self, at: float, text: str) -> None:
        if self.story is not None:
            self.story.add(at, text)
