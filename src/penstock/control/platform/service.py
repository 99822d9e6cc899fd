"""Everything people may ask of a running platform, in the views of the wire and on behalf of a principal.

The HTTP API and the dashboard both call this service and nothing behind it, so a right is checked, a refusal worded
and a view made in one place. Reads change nothing. Making a service starts and attaches nothing either: whoever puts a
server together does that (:mod:`penstock.serve`).
"""

import hashlib
import json
import threading
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from penstock.control.future.forecasts import Forecasts
from penstock.control.future.timeline_cache import TimelineCache
from penstock.control.future.whatif import WhatIfStudies
from penstock.control.loop.reconciler import Reconciler
from penstock.control.observe.device_readings import DeviceReadings
from penstock.control.platform.access import Action, require
from penstock.control.platform.administration import Administration
from penstock.control.platform.array_listing import array_row, grouped_rows
from penstock.control.platform.audit import AuditLog
from penstock.control.platform.commands import Commands
from penstock.control.platform.credentials import Credentials
from penstock.control.platform.history import PlatformHistory
from penstock.control.platform.job_commands import JobCommands
from penstock.control.platform.job_files import FilePlaces
from penstock.control.platform.job_hotspots import hotspots_view
from penstock.control.platform.job_logs import JobOutput, LogCursor
from penstock.control.platform.job_metrics import metric_views, usage_views
from penstock.control.platform.job_references import resolve_job
from penstock.control.platform.listing import JobFilter, listed_jobs, parse_cursor
from penstock.control.platform.losses import check_promises
from penstock.control.platform.overview import Overview
from penstock.control.platform.past_moments import past_moment
from penstock.control.platform.policy_switch import PolicySwitch
from penstock.control.platform.presenter import JobPresenter, evaluation_view, event_view, node_views, quote_view
from penstock.control.platform.reports import Reports
from penstock.control.platform.saved_files import SavedFiles
from penstock.control.platform.stop_outlook import metric_band
from penstock.control.platform.tenant_accounts import TenantAccounts
from penstock.control.platform.tenant_secrets import TenantSecrets
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord
from penstock.control.state.secret_files import SecretRepository
from penstock.control.state.store import SILENCE_S, JobRow, Key, Principal
from penstock.core import plain
from penstock.wire import (
    BOOKKEEPING,
    ArraySubmission,
    ArrayView,
    DrainedJob,
    DrainRequest,
    EditRequest,
    EvaluationList,
    EventPage,
    HealthView,
    JobDetail,
    JobHotspotsView,
    JobMetricsView,
    JobPage,
    JobReport,
    JobView,
    LogPage,
    NodeView,
    OverviewView,
    PauseRequest,
    PeriodReport,
    QuoteView,
    ResumeRequest,
    StoryView,
    Submission,
    VersionView,
    WhatIfReport,
    WhatIfRequest,
)

_EVENTS_AT_ONCE = 500
"""Jobs of the past that are played again under other policies; each takes memory, and the oldest tell least."""


class Platform:
    """One running platform. ``commands`` changes it, ``history`` is what the dashboard draws from it.

    ``credentials`` lets people in, ``administration`` is about the platform's own affairs.
    """

    def __init__(
        self,
        journal: Journal,
        reconciler: Reconciler,
        commands: Commands,
        forecasts: Forecasts,
        readings: DeviceReadings,
        secrets: SecretRepository | None = None,
        places: FilePlaces | None = None,
    ) -> None:
        self.stopping = threading.Event()
        """Set when the server goes down; open streams end then."""

        self.audit = AuditLog(journal.store.audit, journal.now)
        self.credentials = Credentials(journal, self.audit, commands.tenancy)
        self.quotas = commands.quotas
        self.administration = Administration(journal, self.credentials, self.quotas, self.audit, commands.tenancy)
        self.tenants = TenantAccounts(journal, self.audit)
        self.policy = PolicySwitch(journal, self.audit, reconciler.nudge)
        self.history = PlatformHistory(journal, reconciler, forecasts, readings, TimelineCache(journal))
        self.secrets = TenantSecrets(secrets, self.audit)
        self.executions = JobCommands(commands.find, reconciler, self.audit)
        self.files = SavedFiles(journal, commands, self.audit, places)
        self._journal = journal
        self._reconciler = reconciler
        self._commands = commands
        self._presenter = JobPresenter(journal, reconciler, forecasts, readings)
        self._overview = Overview(journal, reconciler, forecasts, readings)
        self._reports = Reports(journal)
        self._evaluations = reconciler.evaluation_history
        self._studies = WhatIfStudies(journal.store.url)

    # --- who is asking ----------------------------------------------------------------------------------------------

    def authenticate(self, secret: str, address: str = "") -> Principal:
        """The holder of a valid token; raises :class:`~penstock.wire.UnauthorizedError`."""
        return self.credentials.authenticate(secret, address)

    def recognise(self, secret: str, address: str = "") -> Principal | None:
        """The holder of a token that was shown a moment ago; waits for nobody, and knows nobody else."""
        return self.credentials.recognise(secret, address)

    def still_valid(self, holder: Principal) -> Principal:
        """The holder, as long as its token and session count; raises :class:`~penstock.wire.UnauthorizedError`."""
        return self.credentials.still_valid(holder)

    # --- jobs -------------------------------------------------------------------------------------------------------

    def submit(self, spec: Mapping[str, Any], who: Principal, *, key: str | None = None) -> Submission:
        """A new job. The same key with the same content is the same job, however often it is sent."""
        stored_key = Key(tenant=who.tenant, key=key, fingerprint=_fingerprint(spec)) if key else None
        with self.audit.recorded(who, "submit", str(spec.get("name", ""))) as about:
            require(who, Action.SUBMIT)
            ticket = self._commands.submit(spec, who, stored_key)
            about.name = ticket.job_id
        return Submission(job=self._detail(ticket.job_id, who), again=ticket.again)

    def submit_array(
        self, spec: Mapping[str, Any], array: str, who: Principal, *, key: str | None = None
    ) -> ArraySubmission:
        """A job for each index of a range, all of them or none."""
        from penstock.spec import read_array

        fingerprint = _fingerprint({"job": dict(spec), "array": array})
        stored_key = Key(tenant=who.tenant, key=key, fingerprint=fingerprint) if key else None
        with self.audit.recorded(who, "submit", str(spec.get("name", ""))) as about:
            require(who, Action.SUBMIT)
            made, again = self._commands.submit_array(spec, read_array(array), who, stored_key)
            about.name = made.id
        return ArraySubmission(id=made.id, jobs=made.job_ids, again=again)

    def quote(self, spec: Mapping[str, Any], who: Principal) -> QuoteView:
        """What :meth:`submit` would be told now. The real policy is asked; nothing is changed."""
        require(who, Action.SUBMIT)
        return self._presenter.qualified(quote_view(plain(self._commands.quote(spec, who))))

    def cancel(self, job_id: str, who: Principal) -> JobDetail:
        """End a job for good."""
        with self.audit.recorded(who, "cancel", job_id):
            require(who, Action.STEER)
            self._commands.cancel(job_id, who)
        return self._detail(job_id, who)

    def pause(self, job_id: str, who: Principal, how: PauseRequest | None = None) -> JobDetail:
        """Take a job out of scheduling until it is resumed. It saves its state and gives up its promise.

        A job that cannot resume is paused only ``anyway``; one that can is paused at its next checkpoint if wanted.
        """
        with self.audit.recorded(who, "pause", job_id):
            require(who, Action.STEER)
            self._commands.pause(job_id, who, how)
        return self._detail(job_id, who)

    def resume(self, job_id: str, who: Principal, how: ResumeRequest | None = None) -> JobDetail:
        """Let a paused job ask again, with its old goal or another."""
        with self.audit.recorded(who, "resume", job_id):
            require(who, Action.STEER)
            self._commands.resume(job_id, who, how)
        return self._detail(job_id, who)

    def edit(self, job_id: str, who: Principal, wanted: EditRequest) -> JobDetail:
        """Change what a job asks for. What cannot be promised is refused, and nothing is changed then."""
        with self.audit.recorded(who, "edit", job_id):
            require(who, Action.STEER)
            self._commands.edit(job_id, who, wanted.model_dump(exclude_none=True))
        return self._detail(job_id, who)

    def resolve(self, reference: str, who: Principal) -> str:
        """The id of the job that somebody calls so: by its id, its name, or the beginning of its id."""
        return resolve_job(self._journal, reference, who)

    def find(self, job_id: str, who: Principal) -> JobRecord:
        """The record of a job this principal may see; raises :class:`~penstock.wire.MissingError`."""
        return self._commands.find(job_id, require(who, Action.LOOK))

    def job(self, job_id: str, who: Principal) -> JobDetail:
        return self._presenter.detail(self.find(job_id, who))

    def _detail(self, job_id: str, who: Principal) -> JobDetail:
        """What somebody is told of a job they have just changed, whether or not they may look at others."""
        return self._presenter.detail(self._commands.find(job_id, who))

    def jobs(
        self,
        who: Principal,
        *,
        cursor: str | None = None,
        limit: int = 100,
        states: Sequence[str] = (),
        name: str | None = None,
        tenant: str | None = None,
        array: str | None = None,
        grouped: bool = False,
        evaluations: bool = True,
    ) -> JobPage:
        """Jobs, newest first; those of one ``array``, by its id or name, or ``grouped``, an array being one line.

        Without ``evaluations`` those of checkpoints are left out.
        """
        require(who, Action.LOOK)
        array = self._commands.arrays.find(array, who) if array is not None else None
        wanted = JobFilter(
            states=tuple(states), name=name, tenant=who.sees or tenant, array=array, evaluations=evaluations
        )
        if tenant is not None and not who.may_see(tenant):
            return JobPage(jobs=[])
        if grouped:
            return self._grouped(wanted, parse_cursor(cursor), limit)
        rows = listed_jobs(self._journal, wanted, after=parse_cursor(cursor), limit=limit + 1)
        following = str(rows[limit - 1].number) if len(rows) > limit else None
        return JobPage(jobs=[self._presenter.listed(row) for row in rows[:limit]], next=following)

    def listed(self, row: JobRow) -> JobView:
        """A job as a line of a list."""
        return self._presenter.listed(row)

    def _grouped(self, wanted: JobFilter, after: int | None, limit: int) -> JobPage:
        found = grouped_rows(self._journal, wanted, after=after, limit=limit)
        return JobPage(
            jobs=[self._presenter.listed(row) for row in found.jobs],
            arrays=[self._presenter.array(row) for row in found.arrays],
            next=None if found.next is None else str(found.next),
        )

    def arrays(self, who: Principal) -> list[ArrayView]:
        """Job arrays with a job that is not over, the newest first."""
        found = [self._array(array) for array in self._commands.arrays.active(require(who, Action.LOOK))]
        return sorted(found, key=lambda array: -array.number)

    def array(self, array: str, who: Principal) -> ArrayView:
        """A job array as one line, by its id or its name."""
        return self._array(self._commands.arrays.find(array, require(who, Action.LOOK)))

    def cancel_array(self, array: str, who: Principal) -> ArrayView:
        """End every job of an array that is not over."""
        with self.audit.recorded(who, "cancel", array):
            require(who, Action.STEER)
            return self._array(self._commands.arrays.cancel(array, who))

    def pause_array(self, array: str, who: Principal, how: PauseRequest | None = None) -> ArrayView:
        """Take every job of an array out of scheduling until it is resumed."""
        with self.audit.recorded(who, "pause", array):
            require(who, Action.STEER)
            return self._array(self._commands.arrays.pause(array, who, how))

    def resume_array(self, array: str, who: Principal, how: ResumeRequest | None = None) -> ArrayView:
        """Let the paused jobs of an array ask again, all of them or none."""
        with self.audit.recorded(who, "resume", array):
            require(who, Action.STEER)
            found = self._commands.arrays.resume(array, who, how)
            return self._array(found)

    def _array(self, array: str) -> ArrayView:
        return self._presenter.array(array_row(self._journal, array))

    def why(self, job_id: str, who: Principal) -> StoryView:
        """What happened to a job, and why it stands where it stands."""
        return self._presenter.story(self.find(job_id, who))

    def logs(
        self,
        job_id: str,
        who: Principal,
        *,
        cursor: str | None = None,
        worker: str | None = None,
        since: str | None = None,
        limit: int = 1 << 16,
    ) -> LogPage:
        """Output of a job, run after run, from a cursor on, else from when it was written (how long ago, or when)."""
        record = self.find(job_id, who)
        with self._journal.reading():
            output = JobOutput(
                backend=self._reconciler.backend, runs=tuple(record.runs), over=record.over,
                preparation_log=record.recipe.preparation_log,
            )  # fmt: skip
        if cursor is None and since is not None:
            start = output.since(past_moment(since, self._journal.now()), worker=worker)
        else:
            start = LogCursor.parse(cursor)
        return output.page(worker=worker, cursor=start, limit=limit)

    def metrics(self, job_id: str, who: Principal, names: Collection[str] = ()) -> JobMetricsView:
        """What a job's script logged, one curve for each metric across all its runs."""
        record = self.find(job_id, who)
        with self._journal.reading():
            runs, still = list(record.runs), record.copy()
        evaluated = self._evaluations.curves(record.id) if record.has_evaluations else ()
        found = metric_views(self._reconciler.backend, runs, names, evaluated)
        return JobMetricsView(job_id=record.id, name=record.submission.name, metrics=found, band=metric_band(still))

    def evaluations(self, job_id: str, who: Principal) -> EvaluationList:
        """The evaluations of a job's checkpoints, in the order of their steps."""
        record = self.find(job_id, who)
        found = self._evaluations.of(record.id) if record.has_evaluations else ()
        views = [evaluation_view(each) for each in found]
        return EvaluationList(job_id=record.id, name=record.submission.name, evaluations=views)

    def hotspots(self, job_id: str, who: Principal) -> JobHotspotsView:
        """Where the time of a job's steps goes, as its latest run that was looked at tells."""
        record = self.find(job_id, who)
        with self._journal.reading():
            runs = list(record.runs)
        return hotspots_view(self._reconciler.backend, record.id, record.submission.name, runs)

    def usage(self, job_id: str, who: Principal) -> JobMetricsView:
        """What the processes and devices of a job used over time, across all its runs."""
        record = self.find(job_id, who)
        with self._journal.reading():
            runs = list(record.runs)
        found = usage_views(self._reconciler.backend, runs)
        return JobMetricsView(job_id=record.id, name=record.submission.name, metrics=found)

    # --- events and reports -----------------------------------------------------------------------------------------

    @property
    def last_event(self) -> int:
        """The number of the newest entry of the log."""
        return self._journal.seq

    def events(
        self,
        who: Principal,
        job_id: str | None = None,
        *,
        after: int = 0,
        before: int | None = None,
        newest: bool = False,
        bookkeeping: bool = True,
        limit: int = 100,
    ) -> EventPage:
        """Return a page of the log that the caller may see, or of one job's part of it, by ascending number."""
        require(who, Action.LOOK)
        if job_id is not None:
            self.find(job_id, who)
        lines = self._journal.store.log.page(
            after=after, before=before, newest=newest, limit=limit, job_id=job_id,
            tenant=who.sees if job_id is None else None, without=() if bookkeeping else BOOKKEEPING,
        )  # fmt: skip
        return EventPage(events=[event_view(line) for line in lines], next=lines[-1].seq if lines else after)

    def new_events(self, who: Principal, after: int) -> EventPage:
        """What came after an event; ``next`` also passes over what this principal may not see."""
        latest = self._journal.seq
        if latest <= after:
            return EventPage(events=[], next=after)
        page = self.events(who, after=after, limit=_EVENTS_AT_ONCE)
        read_to = page.next if len(page.events) == _EVENTS_AT_ONCE else max(latest, page.next)
        return EventPage(events=page.events, next=read_to)

    def overview(self, who: Principal, *, jobs: int = 50, events: int = 8) -> OverviewView:
        """Devices, queue, active jobs with their promises and forecasts, and the latest news."""
        return self._overview.view(require(who, Action.LOOK), jobs=jobs, events=events)

    def period_report(
        self, who: Principal, *, since: str = "7d", until: str | None = None, tenant: str | None = None
    ) -> PeriodReport:
        """A stretch of time: promises, device time and energy by tenant, failures, resizes, forecasts."""
        return self._reports.period(require(who, Action.LOOK), since, until, tenant)

    def job_report(self, job_id: str, who: Principal) -> JobReport:
        """One job's life in figures and in sentences."""
        return self._reports.job(who, self.find(job_id, who))

    # --- nodes and the platform itself ------------------------------------------------------------------------------

    def nodes(self, who: Principal) -> list[NodeView]:
        return self._nodes(require(who, Action.LOOK))

    def _nodes(self, who: Principal) -> list[NodeView]:
        return node_views(self._journal, who, self._reconciler.backend.unusable(), self._reconciler.leaving)

    def drain(self, node: str, who: Principal, how: DrainRequest | None = None) -> list[NodeView]:
        """No more jobs on a node; those that can resume save their state and leave it, the others end there first."""
        with self.audit.recorded(who, "drain", node):
            require(who, Action.DRAIN)
            check_promises(self._journal, node, how or DrainRequest())
            self._commands.drain(node, how, by=who.name)
        return self._nodes(who)

    def drained_jobs(self, node: str, who: Principal) -> list[DrainedJob]:
        """The jobs that draining a node would stop, with what each of them would lose; nothing is changed."""
        require(who, Action.DRAIN)
        return self._commands.drained_jobs(node)

    def undrain(self, node: str, who: Principal) -> list[NodeView]:
        """Jobs may run on a drained node again."""
        with self.audit.recorded(who, "undrain", node):
            require(who, Action.DRAIN)
            self._commands.undrain(node)
        return self._nodes(who)

    def what_if(self, wanted: WhatIfRequest, who: Principal) -> WhatIfReport:
        """The past under other rules, beside itself replayed; it takes everybody's jobs, so only admins may."""
        require(who, Action.REPLAY)
        self._journal.publish()
        return self._studies.study(wanted, self._journal.now())

    def storage_trouble(self) -> str:
        """Why nothing can be looked up or written now; empty if all is well. Costs nothing and waits for nobody."""
        silent_s = self._journal.store.lease.silent_s
        return f"the database has not answered for {silent_s:.0f} s" if silent_s > SILENCE_S else ""

    def health(self) -> HealthView:
        """Whether the platform does its work, and the trouble if not. Waits for nobody."""
        trouble = "stopping" if self.stopping.is_set() else self.storage_trouble() or self._reconciler.trouble
        return HealthView(
            status="not ready" if trouble else "ready", trouble=trouble, notices=self._reconciler.notices,
            warnings=self._journal.warnings,
        )  # fmt: skip

    def version(self) -> VersionView:
        return VersionView(version=version("penstock"))


def _fingerprint(spec: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(dict(spec), sort_keys=True, default=str).encode()).hexdigest()
