"""What stopping a job or draining a node now would lose, said before it is done."""

from penstock.control.future.promise_risk import endangered_by, risk_text
from penstock.control.state.entries import Absence, NodeLeft, PauseAsked, Paused
from penstock.control.state.journal import Journal
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.records import JobRecord
from penstock.control.state.reducers import loss_of_node
from penstock.core import InputError, format_duration
from penstock.wire import ConflictError, DrainedJob, DrainRequest, LossError, PauseRequest


def lost_s(record: JobRecord, now: float) -> float:
    """Seconds of work that a job would do again if it lost its devices now; 0 if it can resume or holds none."""
    return 0.0 if record.grant is None or record.job.resumable else max(now - record.granted_at, 0.0)


def pause_entry(record: JobRecord, how: PauseRequest, now: float, by: str) -> Paused | PauseAsked:
    """What pausing a job is in the log; a LossError where work would be lost and the caller did not accept that."""
    if how.anyway and how.at_checkpoint:
        raise InputError("anyway and at_checkpoint", "one of them", "at_checkpoint loses no work, so leave anyway out")
    if record.grant is None or (record.job.resumable and not how.at_checkpoint) or how.anyway:
        return Paused(at=now, job_id=record.id, by=by)
    if record.job.resumable:
        return PauseAsked(at=now, job_id=record.id, by=by)
    work = f"{format_duration(lost_s(record, now))} of work"
    if how.at_checkpoint:
        raise ConflictError(
            f"job {record.id!r} cannot resume: it has told of no checkpoint to wait for, and {work} would be lost",
            "a job that can resume", "Let it end; or pause it --anyway, and it begins again when it is resumed",
        )  # fmt: skip
    raise LossError(
        f"job {record.id!r} cannot resume: {work} would be lost, and it would begin again when it is resumed",
        "a job that can resume, or --anyway", "Let it end; pause it --anyway; or say resumable: true in its job file",
    )  # fmt: skip


def check_promises(journal: Journal, node: str, how: DrainRequest) -> None:
    """Raise a ConflictError that names the promises which draining a node would endanger."""
    with journal.reading() as state:
        if how.force or (state.absent.get(node) is Absence.DRAINED and not how.now):
            return
        stage = state.scheduler.twin()
    if stage.cluster.position(node) is None:
        return
    left = NodeLeft(at=max(journal.now(), stage.now), node=node, why=Absence.DRAINED, waits=not how.now)
    if risks := endangered_by(stage, loss_of_node(left)):
        raise ConflictError(
            f"draining {node} would endanger {risk_text(risks)}", "a node without which promises are kept",
            "Wait until these jobs are over, or insist with --force",
        )  # fmt: skip


def drained_jobs(state: PlatformState, node: str, now: float) -> list[DrainedJob]:
    """The jobs on a node that would be stopped if it were drained."""
    used = {known.name for _, known in state.scheduler.cluster.present()} - state.absent.keys() - {node}
    return [
        DrainedJob(
            id=record.id, name=record.submission.name, resumable=record.job.resumable, lost_s=lost_s(record, now),
            elsewhere=any(map(record.job.nodes.allows, used)),
        )
        for record in state.engaged.values()
        if record.grant is not None and any(place.node == node for place in record.places)
    ]  # fmt: skip
