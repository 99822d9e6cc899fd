"""Where a job stands, and what the scheduler remembers of it besides its row."""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.core import Job, Quote
from penstock.scheduler.story import Story


class JobState(StrEnum):
    """The life of a job; the last three are final."""

    ASKING = "asking"
    """Submitted, not answered, or answered "not yet"; it may already run on free devices."""
    PENDING = "pending"
    """Admitted, has never run."""
    RUNNING = "running"
    SUSPENDED = "suspended"
    """Ran before, holds nothing now."""
    FINISHED = "finished"
    DECLINED = "declined"
    CANCELLED = "cancelled"


FINAL = frozenset({JobState.FINISHED, JobState.DECLINED, JobState.CANCELLED})


@dataclass(slots=True)
class Record:
    """What is known of one job. ``excuse`` is the first thing outside the policy that endangered its promise."""

    job: Job
    key: int
    kind: str
    state: JobState = JobState.ASKING
    quote: Quote | None = None
    has_run: bool = False
    excuse: str = ""
    story: Story | None = field(default=None, repr=False)

    def copy(self) -> "Record":
        """The same without its story."""
        return Record(self.job, self.key, self.kind, self.state, self.quote, self.has_run, self.excuse)

    def tell(self, at: float, text: str) -> None:
        if self.story is not None:
            self.story.add(at, text)
