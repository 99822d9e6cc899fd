"""What a paused job goes on with: its old goal or another, and only if that would not be refused."""

from penstock.control.future.quoting import quote_resumed
from penstock.control.state.entries import Resumed
from penstock.control.state.records import JobRecord
from penstock.core import BestEffort, Deadline, Goal, Progress, Verdict, parse_deadline
from penstock.scheduler import Scheduler
from penstock.wire import ConflictError, ResumeRequest


def resumed(record: JobRecord, how: ResumeRequest | None, stage: Scheduler, now: float, by: str) -> Resumed:
    """Return the entry that lets a paused job ask again; a ConflictError where it would be rejected."""
    how = how or ResumeRequest()
    goal = new_goal(record, now, how)
    if how.from_scratch:
        stage.handle(Progress(max(now, stage.now), record.id, record.work))
    must_fit(stage, record.id, goal, now)
    return Resumed(at=now, job_id=record.id, goal=goal, by=by, from_scratch=how.from_scratch)


def new_goal(record: JobRecord, now: float, how: ResumeRequest) -> Goal | None:
    """The goal it goes on with, if that is not the one it had."""
    if how.deadline is not None:
        return Deadline(parse_deadline(how.deadline, now))
    if how.best_effort:
        return BestEffort()
    if record.job.deadline <= now:
        raise ConflictError(
            f"the deadline of job {record.id!r} passed while it was paused", "a deadline after now",
            "Resume it with another deadline, or with best_effort",
        )  # fmt: skip
    return None


def must_fit(stage: Scheduler, job_id: str, goal: Goal | None, now: float) -> None:
    """Raises :class:`~penstock.wire.ConflictError` where it would be refused; in ``stage``, a twin, the job goes on."""
    answer = quote_resumed(stage, job_id, goal, now)
    if answer is not None and answer.verdict is Verdict.REFUSED:
        raise ConflictError(
            f"it would be refused now: {answer.reason}", "a deadline that can still be kept",
            "Resume it with another deadline, or with best_effort",
        )  # fmt: skip
