"""What the dashboard draws: who held what when, what is planned, and what the devices do.

Rows of the history and figures of runs, not views of the wire: charts are made of them. What belongs to other tenants
is among them, because their devices are taken too; whoever draws shows of it only that it is there.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.control.future.forecasts import Forecasts
from penstock.control.future.planned_timeline import PlannedTimeline
from penstock.control.future.timeline_cache import TimelineCache
from penstock.control.loop.reconciler import Reconciler
from penstock.control.loop.run_figures import RunFigures
from penstock.control.observe.device_readings import DeviceReading, DeviceReadings
from penstock.control.state.journal import Journal
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Holding, JobRow, Line, Principal, Search
from penstock.core import Cluster, InputError, Report, parse_deadline
from penstock.wire import JobPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """One row of a list of jobs, how much of its work is done, between 0 and 1, and until when it is wanted."""

    row: JobRow
    share_done: float
    deadline: float | None = None


class PlatformHistory:
    """The past and the planned future of one platform."""

    def __init__(
        self,
        journal: Journal,
        reconciler: Reconciler,
        forecasts: Forecasts,
        readings: DeviceReadings,
        timeline: TimelineCache,
    ) -> None:
        self._journal = journal
        self._reconciler = reconciler
        self._forecasts = forecasts
        self._readings = readings
        self._timeline = timeline

    def now(self) -> float:
        return self._journal.now()

    def position(self) -> tuple[int, int]:
        """Changes whenever something happened, and when lists show it; costs nothing to ask."""
        return self._journal.seq, self._journal.published

    def policy(self) -> str:
        settings = self._journal.state.settings
        return settings.policy if settings is not None else ""

    def cluster(self) -> tuple[Cluster, frozenset[str]]:
        """The cluster, and the nodes of it that take no jobs."""
        with self._journal.reading() as state:
            return state.scheduler.cluster, frozenset(state.absent)

    def holdings(self, since: float, until: float) -> list[Holding]:
        return self._journal.store.history.holdings(since, until)

    def waits(self, since: float, until: float) -> list[tuple[float, float]]:
        """From when to when each job waited for its first devices."""
        return self._journal.store.history.waits(since, until)

    def lines(self, kinds: Sequence[str], who: Principal, *, since: float, limit: int) -> list[Line]:
        """The latest entries of some kinds that this principal may see, oldest first."""
        return self._journal.store.history.lines(kinds, since=since, tenant=who.sees, limit=limit)

    def counts(self, who: Principal) -> Mapping[str, int]:
        """How many jobs there are in each state."""
        return self._journal.store.history.counts(who.sees)

    def counts_by_tenant(self, who: Principal) -> Mapping[str, Mapping[str, int]]:
        return self._journal.store.history.counts_by_tenant(who.sees)

    def search(self, wanted: Search, who: Principal) -> tuple[list[ListedJob], int]:
        """One page of jobs, and how many there are."""
        if who.sees is not None and wanted.tenant != who.sees:
            raise InputError(
                f"You asked for the jobs of {wanted.tenant or 'every tenant'}", f"those of your tenant, {who.sees}"
            )
        matches, now = self._journal.store.history.search(wanted), self.now()
        with self._journal.reading() as state:
            listed = [
                ListedJob(row=row, share_done=_share_done(row, state, now), deadline=_deadline(row, state))
                for row in matches.rows
            ]
        return listed, matches.total

    def holders(self) -> dict[int, JobRecord]:
        """By device, the job that holds it now."""
        with self._journal.reading() as state:
            return {
                device: record
                for record in state.engaged.values()
                if record.grant is not None
                for device in record.grant.devices
            }

    def records(self, job_ids: Sequence[str]) -> dict[str, JobRecord]:
        """The records of these jobs, of those there are."""
        with self._journal.reading() as state:
            return {job_id: state.jobs[job_id] for job_id in job_ids if job_id in state.jobs}

    def planned_timeline(self) -> PlannedTimeline:
        """Who will hold which devices if nobody submits anything."""
        return self._timeline.timeline()

    def expected_at(self, job_id: str) -> float | None:
        """When a job will probably be done."""
        return self._forecasts.expected_at(job_id)

    def device_readings(self) -> list[DeviceReading]:
        return self._readings.readings()

    def run_figures(self) -> dict[str, RunFigures]:
        """The latest figures of every live run, by its id."""
        return dict(self._reconciler.run_figures)

    def reports(self, run_id: str) -> Sequence[Report]:
        """Everything a run has reported, as long as its backend keeps it."""
        return self._reconciler.backend.reports(run_id, 0)


def _deadline(row: JobRow, state: PlatformState) -> float | None:
    """Of a job that is over as its answer had it, else as its file said when it was submitted."""
    record = state.jobs.get(row.id)
    if record is not None and not record.over:
        deadline = record.job.deadline
    else:
        promised = float((row.quote or {}).get("deadline") or math.inf)
        deadline = promised if math.isfinite(promised) else _deadline_in(row.spec, row.submitted_at)
    return deadline if math.isfinite(deadline) else None


def _deadline_in(spec: Mapping[str, Any], submitted_at: float) -> float:
    goal = spec.get("goal")
    text = spec.get("deadline") or (goal.get("deadline") if isinstance(goal, Mapping) else None)
    try:
        return parse_deadline(str(text), submitted_at) if text else math.inf
    except InputError:
        return math.inf


def _share_done(row: JobRow, state: PlatformState, now: float) -> float:
    record = state.jobs.get(row.id)
    if record is None or record.over:
        return 1.0 if row.state == JobPhase.FINISHED else 0.0
    return min(max(1.0 - state.remaining(record, now) / record.work, 0.0), 1.0)
