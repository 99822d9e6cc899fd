"""Who stands where, kept up to date as the state changes, so that asking costs nothing however many jobs there are."""

import math
from collections import Counter as Tally
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.control.state.platform_state import PlatformState
from penstock.control.state.records import JobRecord
from penstock.core import Verdict
from penstock.wire import OVER, JobPhase

_SPARE = 1_000


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Where one job stands: its phase and what it was told."""

    phase: JobPhase
    verdict: Verdict | None
    tenant: str


class JobCounts:
    """Every job of one state. :meth:`update` each record that was touched; a new state begins anew by itself.

    ``waiting`` maps jobs that have never run to when they came, ``promises`` those that are promised and not over to
    their deadlines.
    """

    def __init__(
        self, label: Callable[[str], str], archived: Callable[[], Mapping[tuple[str, str], int]] = dict
    ) -> None:
        """``archived`` counts jobs that are over and have left the state, by phase and tenant."""
        self.counts: Tally[tuple[str, str]] = Tally()
        self.waiting: dict[str, float] = {}
        self.promises: dict[str, float] = {}
        self._label = label
        self._archived = archived
        self._state: PlatformState | None = None
        self._known: dict[str, JobStatus] = {}

    def follows(self, state: PlatformState) -> bool:
        """Whether this is the state it has been following; if not, it starts over with what stands there."""
        if state is self._state:
            return True
        self._state = state
        for counted in (self.counts, self.waiting, self.promises, self._known):
            counted.clear()
        for (phase, tenant), many in self._archived().items():
            self.counts[phase, self._label(tenant)] += many
        for record in state.jobs.values():
            self.update(record)
        return False

    def update(self, record: JobRecord) -> tuple[JobStatus | None, JobStatus]:
        """Take a record in; how it stood before and how it stands now."""
        assert self._state is not None
        phase, before = self._state.phase(record), self._known.get(record.id)
        now = JobStatus(
            phase, record.quote.verdict if record.quote is not None else None, self._label(record.job.tenant)
        )
        if before != now:
            self._known[record.id] = now
            self._recount(before, now)
            self._forget_archived()
        self._note(record, phase)
        return before, now

    def _forget_archived(self) -> None:
        """Jobs that have left the state do not change any more; they are dropped many at a time."""
        assert self._state is not None
        if len(self._known) > 2 * len(self._state.jobs) + _SPARE:
            self._known = {job_id: self._known[job_id] for job_id in self._state.jobs if job_id in self._known}

    def _recount(self, before: JobStatus | None, now: JobStatus) -> None:
        self.counts[now.phase.value, now.tenant] += 1
        if before is not None:
            self.counts[before.phase.value, before.tenant] -= 1

    def _note(self, record: JobRecord, phase: JobPhase) -> None:
        waits = phase not in OVER and phase is not JobPhase.PAUSED and record.started_at is None
        _keep(self.waiting, record.id, record.submission.at if waits else None)
        open_promise = phase not in OVER and promised(record)
        _keep(self.promises, record.id, record.job.deadline if open_promise else None)


def promised(record: JobRecord) -> bool:
    """Whether the job has a deadline that was promised."""
    return record.quote is not None and record.quote.verdict is Verdict.PROMISED and math.isfinite(record.job.deadline)


def _keep(moments: dict[str, float], job_id: str, value: float | None) -> None:
    if value is None:
        moments.pop(job_id, None)
    else:
        moments[job_id] = value
