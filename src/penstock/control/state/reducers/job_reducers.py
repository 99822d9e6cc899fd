"""What entries about a job's life do to the state: asked for, prepared, edited, paused and resumed, cancelled."""

from dataclasses import replace

from penstock.control.state.entries import (
    Cancelled,
    Edited,
    PauseAsked,
    Paused,
    PreparationFailed,
    PreparationNoted,
    Prepared,
    Recovered,
    Resumed,
    Submitted,
    Unblocked,
)
from penstock.control.state.evaluations import Evaluates, LatestEvaluation
from penstock.control.state.folded_state import FoldedState, Reducers, listed
from penstock.control.state.records import JobRecord, stint_of
from penstock.core import (
    EventError,
    JobAmended,
    JobCancelled,
    JobPaused,
    JobResumed,
    JobSubmitted,
    Progress,
    format_duration,
)
from penstock.wire import JobPhase


def _submitted(state: FoldedState, entry: Submitted) -> None:
    if entry.job.id in state.jobs:
        raise EventError(f"a job {entry.job.id!r} is already in the state")
    mark = JobPhase.BLOCKED if entry.after else JobPhase.PREPARING if entry.preparing else None
    record = JobRecord(entry.job.id, state.submitted + 1, entry, entry.job, mark)
    state.adopt(record)
    state.submitted += 1
    if entry.after:
        record.reason = f"it comes after {listed(entry.after)}"
        record.tell(entry.at, f"submitted: {record.reason}")
    if entry.evaluates is not None:
        _note_evaluation(state, entry, entry.evaluates)
    if mark is None:
        state.feed(JobSubmitted(entry.at, entry.job))


def _note_evaluation(state: FoldedState, entry: Submitted, evaluates: Evaluates) -> None:
    """The job whose checkpoint it is remembers it; the evaluation may outlive it."""
    what = f"the checkpoint of step {evaluates.step} of {evaluates.job_id}"
    state.jobs[entry.job.id].tell(entry.at, f"submitted: it evaluates {what}")
    parent = state.jobs.get(evaluates.job_id)
    if parent is None:
        return
    parent.evaluation = LatestEvaluation(job_id=entry.job.id, step=evaluates.step, at=entry.at)
    behind = (
        f"; passed over meanwhile: step {listed([*map(str, evaluates.passed_over)])}" if evaluates.passed_over else ""
    )
    parent.tell(entry.at, f"its checkpoint of step {evaluates.step} is evaluated by {entry.job.id}{behind}")
    state.mark_changed(parent.id)


def _recovered(state: FoldedState, entry: Recovered) -> None:
    """Its runs keep their ids; one that still lives saves its state and ends."""
    job = entry.submission.job
    if job.id in state.jobs:
        raise EventError(f"a job {job.id!r} is already in the state")
    record = JobRecord(job.id, state.submitted + 1, entry.submission, job, runs=list(entry.runs))
    record.stint = max(map(stint_of, entry.runs), default=0)
    record.started_at = entry.started_at
    record.tell(entry.at, "the platform's history was lost; this is what its runs tell")
    state.submitted += 1
    if entry.over:
        record.mark, record.ended_at, record.reason = JobPhase(entry.over), entry.ended_at or entry.at, entry.reason
        state.adopt(record)
        return
    record.mark = JobPhase.PAUSED
    state.adopt(record)
    state.feed(JobSubmitted(entry.at, job), JobPaused(entry.at, job.id))
    state.engage(job.id)


def _unblocked(state: FoldedState, entry: Unblocked) -> None:
    record = state.live(entry.job_id)
    if record.mark is not JobPhase.BLOCKED:
        raise EventError(f"job {record.id!r} is not blocked")
    record.mark, record.reason = JobPhase.PREPARING, ""
    record.tell(entry.at, "what it waited for is over")


def _preparation_noted(state: FoldedState, entry: PreparationNoted) -> None:
    record = _in_preparation(state, entry.job_id)
    record.reason = entry.text
    record.tell(entry.at, entry.text)


def _prepared(state: FoldedState, entry: Prepared) -> None:
    """Its deadline counts from its submission; what it can be promised, from now."""
    record = _in_preparation(state, entry.job_id)
    del state.preparing[record.id]
    record.submission = replace(record.submission, recipe=entry.recipe)
    record.job = replace(record.job, curve=entry.curve, costs=entry.costs)
    record.mark, record.reason = None, ""
    if not record.submission.after:
        record.tell(entry.at, f"prepared after {format_duration(entry.at - record.submission.at)}")
    state.adopt(record)
    state.feed(JobSubmitted(entry.at, record.job))


def _preparation_failed(state: FoldedState, entry: PreparationFailed) -> None:
    record = _in_preparation(state, entry.job_id)
    record.tell(entry.at, f"it could not be prepared: {entry.reason}")
    record.tail = entry.tail
    state.close(record, JobPhase.FAILED, entry.at, entry.reason)


def _cancelled(state: FoldedState, entry: Cancelled) -> None:
    record = state.live(entry.job_id)
    if record.id not in state.preparing:
        state.feed(JobCancelled(entry.at, record.id))
    said = f"cancelled by {entry.by}" if entry.by else "cancelled"
    record.tell(entry.at, f"{said}: {entry.reason}" if entry.reason else said)
    state.close(record, JobPhase.CANCELLED, entry.at, entry.reason or "cancelled")
    for evaluation in list(state.evaluations.get(record.id, {})):
        reason = f"the job {record.id} was cancelled"
        _cancelled(state, Cancelled(at=entry.at, job_id=evaluation, by=entry.by, reason=reason))
        state.mark_changed(evaluation)


def _paused(state: FoldedState, entry: Paused) -> None:
    record = state.live(entry.job_id)
    if record.id in state.preparing:
        raise EventError(f"job {record.id!r} is being prepared")
    state.feed(JobPaused(entry.at, record.id))
    record.lose_devices()
    record.pause_asked_at = None
    record.mark, record.reason = JobPhase.PAUSED, entry.reason
    said = f"paused by {entry.by}" if entry.by else "paused"
    record.tell(entry.at, f"{said}: {entry.reason}" if entry.reason else said)


def _pause_asked(state: FoldedState, entry: PauseAsked) -> None:
    record = state.live(entry.job_id)
    record.pause_asked_at, record.pause_asked_by = None if entry.withdrawn else entry.at, entry.by
    by = f" by {entry.by}" if entry.by else ""
    what = "not to be paused any more" if entry.withdrawn else "to be paused at its next checkpoint"
    record.tell(entry.at, what + by)


def _resumed(state: FoldedState, entry: Resumed) -> None:
    record = state.live(entry.job_id)
    if record.mark is not JobPhase.PAUSED:
        raise EventError(f"job {entry.job_id!r} is not paused")
    said = f"resumed by {entry.by}" if entry.by else "resumed"
    record.tell(entry.at, f"{said}: it begins again at step 0" if entry.from_scratch else said)
    record.mark, record.reason = None, ""
    if entry.from_scratch:
        record.begin_from_scratch()
        state.feed(Progress(entry.at, record.id, record.work))
    state.feed(JobResumed(entry.at, record.id, entry.goal))
    if not record.over:
        record.job = state.scheduler.job(record.id)


def _edited(state: FoldedState, entry: Edited) -> None:
    record = state.live(entry.job_id)
    if record.id in state.preparing:
        record.job = entry.amendment.applied_to(record.job)
    else:
        held = record.grant
        state.feed(JobAmended(entry.at, record.id, entry.amendment))
        record.job = state.scheduler.job(record.id)
        if held is not None and record.grant is None:
            state.displace(record, held)
    record.submission = replace(record.submission, name=entry.name, spec=entry.spec)
    if entry.amendment.asks_again:
        record.quote = None
    record.tell(entry.at, f"edited{f' by {entry.by}' if entry.by else ''}: {entry.what}")


def _in_preparation(state: FoldedState, job_id: str) -> JobRecord:
    if job_id not in state.preparing or state.preparing[job_id].mark is JobPhase.BLOCKED:
        raise EventError(f"job {job_id!r} is not being prepared")
    return state.preparing[job_id]


JOB_REDUCERS: Reducers = {
    Submitted: _submitted,
    Recovered: _recovered,
    Unblocked: _unblocked,
    PreparationNoted: _preparation_noted,
    Prepared: _prepared,
    PreparationFailed: _preparation_failed,
    Cancelled: _cancelled,
    Paused: _paused,
    PauseAsked: _pause_asked,
    Resumed: _resumed,
    Edited: _edited,
}
