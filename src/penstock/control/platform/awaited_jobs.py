"""The jobs that another comes after: found by what people call them, and only jobs that are there.

Nobody can wait for a job that is submitted later, so nobody waits in a circle.
"""

import math
from collections.abc import Iterable

from penstock.control.future.forecasts import Forecasts
from penstock.control.loop.job_reader import JobDraft
from penstock.control.platform.array_commands import ArrayCommands
from penstock.control.platform.array_listing import array_members
from penstock.control.platform.job_references import resolve_job
from penstock.control.state.folded_state import listed
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Principal
from penstock.core import Quote, Source, Verdict, format_duration
from penstock.policies import weakest_source
from penstock.scheduler import Scheduler
from penstock.wire import ConflictError, JobPhase, MissingError


def awaited_jobs(
    journal: Journal, arrays: ArrayCommands, references: Iterable[str], who: Principal, *, after_any: bool
) -> tuple[str, ...]:
    """The ids of those that are not over; raises where one is not there, or can no longer finish."""
    found: dict[str, None] = {}
    for reference in references:
        for record in _meant(journal, arrays, reference, who):
            if not record.over:
                found[record.id] = None
            elif record.mark is not JobPhase.FINISHED and not after_any:
                raise ConflictError(
                    f"job {record.id!r} is {record.mark}: what comes after it would never start",
                    "jobs that are not over, or that have finished", "Leave it out, or say after_any",
                )  # fmt: skip
    return tuple(found)


def blocked_quote(draft: JobDraft, stage: Scheduler, forecasts: Forecasts, now: float) -> Quote:
    """What a job is told that waits for others: nothing is promised before, and what is expected is said."""
    ready_at = ready_after(draft.after, forecasts)
    known = weakest_source(draft.job) is not Source.GUESSED
    expected_at = ready_at + stage.seconds_alone(draft.job) if known else math.inf
    reason = f"it comes after {listed(draft.after)} and is answered then"
    if not math.isfinite(ready_at):
        reason += "; when that is, is not known yet"
    else:
        reason += f", in about {format_duration(max(0.0, ready_at - now))}"
    if math.isfinite(expected_at) and expected_at > draft.job.deadline:
        late = format_duration(expected_at - draft.job.deadline)
        reason += f"; it would then end {late} after its deadline"
    return Quote(job_id=draft.job.id, verdict=Verdict.DEFERRED, reason=reason, expected_at=expected_at)


def ready_after(awaited: Iterable[str], forecasts: Forecasts) -> float:
    """When the last of these jobs will probably have ended; infinite if that is not known yet."""
    ends = [forecasts.expected_at(job_id) for job_id in awaited]
    return max((math.inf if end is None else end for end in ends), default=math.inf)


def _meant(journal: Journal, arrays: ArrayCommands, reference: str, who: Principal) -> list[JobRecord]:
    """A job, or else every job of an array; somebody else's is as unknown as none."""
    record = journal.find(resolve_job(journal, reference, who))
    if record is not None and who.may_see(record.job.tenant):
        return [record]
    try:
        array = arrays.find(reference, who)
    except MissingError:
        raise MissingError(
            f"There is no job {reference!r} to come after", "a job or a job array of yours that was submitted before",
            "`penstock ps -a` lists them",
        ) from None  # fmt: skip
    members = (journal.find(member.id) for member in array_members(journal, array))
    return [member for member in members if member is not None]
