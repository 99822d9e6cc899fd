"""What entries about the runs of a job do to the state: what they told on their way, and how they ended."""

import math

from penstock.control.state.entries import (
    FailureReported,
    Launched,
    Progressed,
    Resized,
    RunFailed,
    RunFinished,
    RunNoted,
    RunReleased,
    RunSuspended,
    RunWatched,
    SaveFailed,
    WorkerLost,
)
from penstock.control.state.folded_state import FoldedState, Reducers
from penstock.control.state.records import BROKEN_PROMISE, JobRecord
from penstock.core import (
    DevicesReleased,
    EventError,
    JobFailed,
    JobFinished,
    Progress,
    ReportKind,
    WorkerFailed,
    format_duration,
)
from penstock.wire import JobPhase


def _launched(state: FoldedState, entry: Launched) -> None:
    record = state.record(entry.job_id)
    if entry.run_id not in record.runs:
        record.runs.append(entry.run_id)
    if record.started_at is None:
        record.started_at, record.expected_at = entry.at, entry.expected_at


def _progressed(state: FoldedState, entry: Progressed) -> None:
    record = state.live(entry.job_id)
    record.restarting = False
    state.feed(Progress(entry.at, record.id, entry.remaining))


def _resized(state: FoldedState, entry: Resized) -> None:
    """The world we asked for has come about; any other is answered by asking again."""
    record = state.live(entry.job_id)
    if entry.run_id != record.run_id or record.grant is None or entry.generation < record.generation:
        return
    record.restarting = entry.awaits_step
    if entry.generation == record.generation and entry.width in (None, record.grant.width):
        record.settle()
        return
    record.tell(entry.at, f"{entry.width} of {record.grant.width} workers are left; the others are replaced")
    record.generation = entry.generation
    record.replace_lost(entry.at)


def _worker_lost(state: FoldedState, entry: WorkerLost) -> None:
    record = state.live(entry.job_id)
    if entry.run_id == record.run_id:
        record.lose_worker(entry.worker)
    record.tell(entry.at, f"worker {entry.worker} ended{_ending(entry)}")


def _save_failed(state: FoldedState, entry: SaveFailed) -> None:
    where = "" if entry.step is None else f" at step {entry.step}"
    state.live(entry.job_id).tell(entry.at, f"its state could not be saved{where}: {entry.reason}; it goes on")


def _run_noted(state: FoldedState, entry: RunNoted | RunWatched) -> None:
    record = state.live(entry.job_id)
    record.tell(entry.at, entry.text)
    if isinstance(entry, RunWatched) and entry.kind == ReportKind.CHECKPOINT_UNREADABLE:
        record.unreadable = entry.text


def _run_suspended(state: FoldedState, entry: RunSuspended) -> None:
    record = state.live(entry.job_id)
    record.count_energy(entry.energy_j, estimated=entry.energy_estimated)
    record.end_run(entry.run_id)
    record.saved_step = entry.saved_step or record.saved_step
    if entry.run_id == record.run_id:
        _settle_without_devices(state, record)
        record.begin_again(entry.at)


def _run_released(state: FoldedState, entry: RunReleased) -> None:
    """Also if its devices were taken away meanwhile: it needs none any more."""
    record = state.live(entry.job_id)
    if entry.run_id != record.run_id:
        raise EventError(f"{entry.run_id} is not the present run of {record.id!r}")
    state.feed(DevicesReleased(entry.at, record.id))
    record.release_devices()
    if record.submission.evaluates is not None:
        record.tell(entry.at, "all its shards are done; its metrics are computed without a device")


def _settle_without_devices(state: FoldedState, record: JobRecord) -> None:
    """The next run of a job that needs no devices is on a node that is there."""
    if record.released and record.cpu_node in state.absent:
        present = (node.name for _, node in state.scheduler.cluster.present())
        record.cpu_node = next((name for name in present if name not in state.absent), record.cpu_node)


def _run_finished(state: FoldedState, entry: RunFinished) -> None:
    record = state.live(entry.job_id)
    held, breach = record.grant is not None, state.scheduler.breach(record.id, entry.at)
    state.feed(JobFinished(entry.at, record.id))
    record.count_energy(entry.energy_j, estimated=entry.energy_estimated)
    if not held and not record.released:
        record.tell(entry.at, "finished before it could be stopped")
    if entry.reason:
        record.tell(entry.at, entry.reason)
    said = [entry.reason, f"{BROKEN_PROMISE}{breach}" if breach else ""]
    state.close(record, JobPhase.FINISHED, entry.at, "; ".join(filter(None, said)))


def _failure_reported(state: FoldedState, entry: FailureReported) -> None:
    record = state.live(entry.job_id)
    if entry.run_id == record.run_id:
        record.failing = entry


def _run_failed(state: FoldedState, entry: RunFailed) -> None:
    record = state.live(entry.job_id)
    record.count_energy(entry.energy_j, estimated=entry.energy_estimated)
    record.end_run(entry.run_id)
    record.saved_step = entry.saved_step or record.saved_step
    if entry.run_id != record.run_id:
        return
    record.count_failure(entry)
    record.tell(entry.at, _failure(entry, record.failures))
    if entry.retry_at is None:
        state.feed(JobFailed(entry.at, record.id, entry.reason))
        state.close(record, JobPhase.FAILED, entry.at, entry.reason)
    elif record.released:
        _settle_without_devices(state, record)
        record.begin_again(entry.at)
    elif record.displaced:
        record.lose_devices()
    elif record.grant is not None:
        state.feed(WorkerFailed(entry.at, record.id))


def _ending(entry: WorkerLost) -> str:
    if entry.signal is not None:
        return f" by signal {entry.signal}"
    return "" if entry.code is None else f" with code {entry.code}"


def _failure(entry: RunFailed, count: int) -> str:
    code = "" if entry.code is None else f" with code {entry.code}"
    wait = math.inf if entry.retry_at is None else max(0.0, entry.retry_at - entry.at)
    then = f"next try in {format_duration(wait)}" if math.isfinite(wait) else "giving up"
    cause = f": {entry.diagnosis.headline}" if entry.diagnosis is not None and entry.diagnosis.cause else ""
    return f"attempt {count} failed ({entry.reason}){code}{cause}; {then}"


RUN_REDUCERS: Reducers = {
    Launched: _launched,
    Progressed: _progressed,
    Resized: _resized,
    WorkerLost: _worker_lost,
    SaveFailed: _save_failed,
    RunNoted: _run_noted,
    RunWatched: _run_noted,
    RunSuspended: _run_suspended,
    RunReleased: _run_released,
    RunFinished: _run_finished,
    FailureReported: _failure_reported,
    RunFailed: _run_failed,
}
