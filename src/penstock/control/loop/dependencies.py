"""Lets jobs go on that waited for others, and ends those for which they can never.

Level-triggered like the rest of the loop: every pass looks which blocked jobs have nothing left to wait for, so a crash
between the end of one job and the start of the next loses neither. How a job ended that has left for the archive is
remembered as long as somebody waits for it.
"""

from penstock.control.state.entries import Cancelled, Unblocked
from penstock.control.state.journal import Journal
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.records import JobRecord
from penstock.wire import JobPhase


class DependencyWatch:
    """Looks after the jobs that are blocked."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._ended: dict[str, JobPhase] = {}

    def look(self) -> None:
        """Unblock whoever may go on, and cancel whoever never will."""
        with self._journal.reading() as state:
            blocked = [record for record in state.preparing.values() if record.mark is JobPhase.BLOCKED]
            entries = [entry for record in blocked if (entry := self._verdict(state, record)) is not None]
            awaited = {job_id for record in blocked for job_id in record.submission.after}
            self._ended = {job_id: phase for job_id, phase in self._ended.items() if job_id in awaited}
            if entries:
                self._journal.record(*entries)

    def _verdict(self, state: PlatformState, record: JobRecord) -> Unblocked | Cancelled | None:
        now, is_over = self._journal.now(), True
        for job_id in record.submission.after:
            phase = self._end_of(state, job_id)
            if phase is None:
                is_over = False
            elif phase is not JobPhase.FINISHED and not record.submission.after_any:
                return Cancelled(at=now, job_id=record.id, reason=f"what it waits for did not finish: {job_id} {phase}")
        return Unblocked(at=now, job_id=record.id) if is_over else None

    def _end_of(self, state: PlatformState, job_id: str) -> JobPhase | None:
        """How a job ended, if it has; one that nobody knows any more did not finish."""
        if (known := self._ended.get(job_id)) is not None:
            return known
        record = state.jobs.get(job_id) or self._journal.find(job_id)
        if record is not None and not record.over:
            return None
        ended = self._ended[job_id] = JobPhase.CANCELLED if record is None or record.mark is None else record.mark
        return ended
