"""What runs tell, as entries.

Pure: a report, what the state knows of the job, and the time go in; entries come out. Most reports only confirm what
the scheduler already projects and leave no trace, so that the log grows with what happens and not with time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.control.loop.unfit_nodes import is_clear_of, unfit_node
from penstock.control.state.entries import (
    Entry,
    FailureReported,
    Launched,
    MetricReported,
    NodePassed,
    Paused,
    Progressed,
    Resized,
    ResumableLearned,
    RunFailed,
    RunFinished,
    RunNoted,
    RunReleased,
    RunSuspended,
    RunWatched,
    SaveFailed,
    WorkerLost,
)
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.records import JobRecord
from penstock.core import SURE, WATCHED, Diagnosis, FailureReason, PreflightLevel, Remedy, Report, ReportKind

_MOST_DOUBLINGS = 30
_SAME_TOTAL = 0.01
_LEAST_LEFT = 0.02
"""Of the work that may be left, what is believed to be left of a job that its metric should have ended by now."""
_PASSING = (Remedy.CORDON_AND_RESTART, Remedy.RETRY_NEW_PORT, Remedy.REQUEUE, Remedy.RETRY)
"""What is over with the next try, also for a script that had not made a step."""
_SHOWS_RESUMABLE = (ReportKind.RESUMABLE, ReportKind.CHECKPOINTED)

_UNDIAGNOSED = (FailureReason.STOPPED, FailureReason.PREFLIGHT)
"""Failures whose reason says it all."""

ASKED = "asked"
"""The reason a backend gives for a worker that ended because it was told to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportReader:
    """When a report is news, and when a failure is final.

    Progress is news when it differs from the projection by more than ``share`` of the whole work and by more than what
    is done in ``seconds``, or when it comes that much sooner than any was expected. The wait before a failed run is
    tried again doubles each time, up to ``most_s``.
    """

    share: float = 0.01
    seconds: float = 2.0
    most_s: float = 600.0

    def entries(
        self,
        report: Report,
        record: JobRecord,
        state: PlatformState,
        now: float,
        diagnosis: Diagnosis | None = None,
    ) -> list[Entry]:
        """What a report of one of the job's runs means.

        A failure is reported first and decided when it is read again, with the ``diagnosis`` that there is then.
        """
        if record.over:
            return []
        at = min(max(report.at, state.at), max(now, state.at))
        understood = _UNDERSTOOD.get(report.kind)
        entry = understood(self, report, record, state, at) if understood else None
        if isinstance(entry, RunFailed) and diagnosis is not None:
            entry = self._judged(replace(entry, diagnosis=diagnosis), record)
        saved = self._saved(report, record, state, at) if report.kind is ReportKind.SUSPENDED else None
        beside = (self._resumable(report, record, at), self._other_total(report, record, at), _held(report, record, at))
        paused = _paused_at_checkpoint(report, record, at)
        return [entry for entry in (*beside, entry, saved, paused) if entry is not None]

    def failed(self, record: JobRecord, run_id: str, at: float, *, reason: str, **more: object) -> RunFailed:
        """A run that is gone, and whether it is worth another try."""
        entry = RunFailed(at=at, job_id=record.id, run_id=run_id, reason=reason, **more)  # type: ignore[arg-type]
        return self._judged(entry, record)

    def _judged(self, entry: RunFailed, record: JobRecord) -> RunFailed:
        """The failure with the time of its next try, or without one: what would recur is not tried again.

        A bad node is left before the next try, so that its failure does not recur, however early it came.
        """
        streak, recipe = record.streak_after(entry), record.submission.recipe
        would_recur = _is_early_exit(entry, record) or _is_same_exit(entry, record)
        if (found := entry.diagnosis) is not None and found.confidence >= SURE:
            would_recur = found.would_recur or (would_recur and found.action not in _PASSING)
        if streak > recipe.max_retries or (would_recur and not recipe.retries_early_exits):
            return replace(entry, retry_at=None)
        wait = min(recipe.backoff_s * 2.0 ** min(streak - 1, _MOST_DOUBLINGS), self.most_s)
        return replace(entry, retry_at=entry.at + wait)

    def _resumable(self, report: Report, record: JobRecord, at: float) -> Entry | None:
        """News if the run shows that it can go on later, unless the job file says that it cannot."""
        shows = report.kind in _SHOWS_RESUMABLE or (report.kind is ReportKind.SUSPENDED and report.step)
        if not shows or record.job.resumable or record.submission.spec.get("resumable") is False:
            return None
        return ResumableLearned(at=at, job_id=record.id, run_id=report.run_id)

    def _other_total(self, report: Report, record: JobRecord, at: float) -> Entry | None:
        """A script that counts to something else than the job file says is told of once."""
        if not report.total or abs(report.total - record.work) <= _SAME_TOTAL * record.work:
            return None
        text = (
            f"its script counts to {report.total}, its job file to {record.work:g}: progress is taken as a share of "
            f"the script's count; write `work: {report.total} steps`, or its speed is mistaken next time"
        )
        if any(note.text == text for note in record.notes):
            return None
        return RunNoted(at=at, job_id=record.id, run_id=report.run_id, text=text)

    def _progress(self, report: Report, record: JobRecord, state: PlatformState, at: float) -> Entry | None:
        begins_again = record.grant is None and not record.job.resumable
        return None if begins_again or report.run_id != record.run_id else self._saved(report, record, state, at)

    def _saved(self, report: Report, record: JobRecord, state: PlatformState, at: float) -> Entry | None:
        left = remaining_after(report, record)
        if left is None:
            return None
        again = record.restarting and report.kind is ReportKind.PROGRESS
        tolerance = max(self.share * record.work, self.seconds * state.rate(record))
        is_near = abs(left - state.remaining(record, at)) <= tolerance
        if is_near and not again and not self._is_early(report, record, state, at):
            return None
        return Progressed(at=at, job_id=record.id, remaining=left, step=report.step, total=report.total, again=again)

    def _is_early(self, report: Report, record: JobRecord, state: PlatformState, at: float) -> bool:
        """Whether the present world makes progress while it is still believed to stand still."""
        if record.grant is None or record.mark is not None or report.generation not in (None, record.generation):
            return False
        return state.scheduler.pause_ends_at(record.id) > at + self.seconds

    def _launched(self, report: Report, record: JobRecord, _: PlatformState, at: float) -> Entry:
        return Launched(at=at, job_id=record.id, run_id=report.run_id)

    def _resized(self, report: Report, record: JobRecord, _: PlatformState, at: float) -> Entry | None:
        if report.generation is None:
            return None
        return Resized(
            at=at, job_id=record.id, run_id=report.run_id, generation=report.generation, width=report.width,
            pause_s=report.pause_s, in_place=report.in_place, awaits_step=report.in_place is False,
        )  # fmt: skip

    def _worker_exited(self, report: Report, record: JobRecord, _: PlatformState, at: float) -> Entry | None:
        """One that was told to go is no loss: in a restart it comes back under the same name."""
        if not report.worker or report.reason == ASKED or not (report.code or report.signal):
            return None
        return WorkerLost(
            at=at, job_id=record.id, run_id=report.run_id, worker=report.worker, code=report.code, signal=report.signal
        )

    def _save_failed(self, report: Report, record: JobRecord, _: PlatformState, at: float) -> Entry:
        return SaveFailed(
            at=at, job_id=record.id, run_id=report.run_id, step=report.step, reason=report.reason or "no reason given"
        )

    def _watched(self, report: Report, record: JobRecord, _: PlatformState, at: float) -> Entry:
        return RunWatched(
            at=at, job_id=record.id, run_id=report.run_id, kind=report.kind, text=report.reason or report.kind
        )

    def _suspended(self, report: Report, record: JobRecord, _: PlatformState, at: float) -> Entry:
        return RunSuspended(at=at, job_id=record.id, run_id=report.run_id, step=report.step)

    def _released(self, report: Report, record: JobRecord, _: PlatformState, at: float) -> Entry | None:
        """Of a job that is paused nothing goes on: it looks what is left to do when it is resumed."""
        if report.run_id != record.run_id or record.mark is not None:
            return None
        return RunReleased(at=at, job_id=record.id, run_id=report.run_id)

    def _finished(self, report: Report, record: JobRecord, _: PlatformState, at: float) -> Entry:
        return RunFinished(at=at, job_id=record.id, run_id=report.run_id, reason=report.reason or "")

    def _metric(self, report: Report, record: JobRecord, _: PlatformState, at: float) -> Entry | None:
        if report.step is None or report.value is None or record.until is None:
            return None
        return MetricReported(at=at, job_id=record.id, run_id=report.run_id, step=report.step, value=report.value)

    def _node_fit(self, report: Report, _: JobRecord, state: PlatformState, at: float) -> Entry | None:
        if report.node not in {node.name for _, node in state.scheduler.cluster.present()}:
            return None
        return NodePassed(at=at, node=str(report.node), level=PreflightLevel(report.level or PreflightLevel.QUICK))

    def _node_unfit(self, report: Report, record: JobRecord, state: PlatformState, at: float) -> Entry | None:
        return unfit_node(report, record, state, at)

    def _failed(self, report: Report, record: JobRecord, state: PlatformState, at: float) -> Entry:
        """A run that was not started because of a node that has been drained since is no failure of its script."""
        moved = report.reason == FailureReason.PREFLIGHT and is_clear_of(record, state)
        stopped = report.reason in (FailureReason.STOPPED, FailureReason.UNREADABLE)
        if moved or stopped or report.run_id != record.run_id:
            return RunSuspended(at=at, job_id=record.id, run_id=report.run_id, step=report.step)
        if not record.is_failing and report.reason not in _UNDIAGNOSED:
            return FailureReported(at=at, job_id=record.id, run_id=report.run_id, report=report)
        return self.failed(
            record, report.run_id, at, reason=report.reason or FailureReason.EXIT, code=report.code, step=report.step,
            tail=report.tail,
        )  # fmt: skip


def _held(report: Report, record: JobRecord, at: float) -> Entry | None:
    """A job whose saved state cannot be read waits for its user: work is never begun again without a word."""
    stopped = report.kind is ReportKind.FAILED and report.reason == FailureReason.UNREADABLE
    if not stopped or report.run_id != record.run_id or record.mark is not None:
        return None
    reason = (
        f"its saved state cannot be read: repair a checkpoint and `penstock resume {record.id}`, or begin again at "
        f"step 0 with `penstock resume {record.id} --from-scratch`"
    )
    return Paused(at=at, job_id=record.id, reason=reason)


def _paused_at_checkpoint(report: Report, record: JobRecord, at: float) -> Entry | None:
    """A job that is to be paused at its next checkpoint has just made one."""
    is_new = record.pause_asked_at is not None and record.pause_asked_at <= report.at
    if report.kind is not ReportKind.CHECKPOINTED or report.run_id != record.run_id or not is_new:
        return None
    return Paused(at=at, job_id=record.id, by=record.pause_asked_by)


def _is_early_exit(entry: RunFailed, record: JobRecord) -> bool:
    """Whether a script ended by itself before its first step: missing modules, files, arguments stay missing."""
    has_stepped = entry.step or record.failed_at_step or record.released
    return entry.reason == FailureReason.EXIT and not has_stepped


def _is_same_exit(entry: RunFailed, record: JobRecord) -> bool:
    """Whether it ended by itself as it did the last time, with the same last words, and got no further."""
    ended = (entry.reason, entry.code, entry.tail[-1:])
    same = ended == (record.reason, record.exit_code, record.tail[-1:]) and record.streak_after(entry) > 1
    return same and entry.reason == FailureReason.EXIT and bool(entry.tail)


def remaining_after(report: Report, record: JobRecord) -> float | None:
    """Iterations left at the step a report names; the script's own total counts, if it gives one."""
    if report.step is None:
        return None
    share_left = 1.0 - report.step / (report.total or record.work)
    left = record.work * min(max(share_left, 0.0), 1.0)
    return left if record.outlook is None else max(left - (record.work - record.total), _LEAST_LEFT * left)


_UNDERSTOOD: dict[ReportKind, Callable[[ReportReader, Report, JobRecord, PlatformState, float], Entry | None]] = {
    ReportKind.LAUNCHED: ReportReader._launched,
    ReportKind.PROGRESS: ReportReader._progress,
    ReportKind.RESIZED: ReportReader._resized,
    ReportKind.WORKER_EXITED: ReportReader._worker_exited,
    ReportKind.CHECKPOINT_FAILED: ReportReader._save_failed,
    **dict.fromkeys(WATCHED, ReportReader._watched),
    ReportKind.SUSPENDED: ReportReader._suspended,
    ReportKind.RELEASED: ReportReader._released,
    ReportKind.FINISHED: ReportReader._finished,
    ReportKind.METRIC: ReportReader._metric,
    ReportKind.NODE_FIT: ReportReader._node_fit,
    ReportKind.NODE_UNFIT: ReportReader._node_unfit,
    ReportKind.FAILED: ReportReader._failed,
}
