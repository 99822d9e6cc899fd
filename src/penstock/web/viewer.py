"""What the pages show and do, on behalf of one signed-in person.

The only way from a page to the platform. Every method asks first whether the person's token still counts, and calls the
same service as the HTTP API, so a right is checked in one place and not once per page. Methods block (database,
locks): pages call them in a thread.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from penstock.control import (
    Action,
    JobRecord,
    Platform,
    Principal,
    Search,
    full_load_w,
    may,
    require,
)
from penstock.core import TENANT_NAME, InputError
from penstock.learn import CurveStore
from penstock.simulate import node_rows
from penstock.web.progress_history import ProgressSampler
from penstock.web.view_models import (
    INCIDENT_KINDS,
    ActiveJob,
    ClusterPower,
    ClusterTimeline,
    DevicePower,
    ForecastBand,
    JobLabel,
    JobOverview,
    JobTableRow,
    NodeUse,
    TenantUse,
    UrgentJobs,
    busy_devices,
    forecast_band,
    held_spans,
    largest_spans,
    modelled_power,
    most_urgent,
    planned_spans,
    step_function,
    tenant_use,
    timeline_marks,
)
from penstock.wire import (
    ArrayView,
    CheckpointList,
    DrainedJob,
    DrainRequest,
    EditRequest,
    EvaluationList,
    FileList,
    JobDetail,
    JobHotspotsView,
    JobMetricsView,
    LogPage,
    PauseRequest,
    QuotaRequest,
    QuotaView,
    QuoteView,
    ResumeRequest,
    TenantAccountView,
    TenantRequest,
    TokenRequest,
    TokenView,
    WhatIfReport,
    WhatIfRequest,
)

M = TypeVar("M", bound=BaseModel)
_HORIZON_SHARE = 0.5
"""The future takes at most this much of the width of the past."""
_MOST_MARKS = 200
_MOST_ACTIVE, _MOST_URGENT = 60, 12


@dataclass(frozen=True, slots=True)
class DashboardData:
    """What the viewers of one server share: the platform, how its jobs progressed, and the curves measured so far."""

    platform: Platform
    sampler: ProgressSampler
    curves: CurveStore


def _checked(model: type[M], fields: Mapping[str, Any]) -> M:
    """What was typed in, as a request; the first thing wrong with it in words."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        wrong = error.errors()[0]
        name = str(wrong["loc"][0]).replace("_", " ")
        allowed = wrong["msg"] if wrong["input"] else "not empty"
        raise InputError(f"{name}: {wrong['input']!r}", allowed, "Change that field and try again") from None


class Viewer:
    """One signed-in person in front of one server."""

    def __init__(self, data: DashboardData, holder: Principal) -> None:
        self._data = data
        self._platform = data.platform
        self._history = data.platform.history
        self.holder = holder

    @property
    def who(self) -> Principal:
        """The person, if session and token still count; asked anew each time."""
        return require(self._platform.still_valid(self.holder), Action.LOOK)

    def may(self, action: Action) -> bool:
        """Whether to offer something at all; whether it is done is asked again when it is."""
        return may(self.holder, action)

    @property
    def is_admin(self) -> bool:
        return self.may(Action.DRAIN)

    def position(self) -> tuple[int, int]:
        """Changes whenever something happened, and when lists show it; costs nothing to ask."""
        return self._history.position()

    def now(self) -> float:
        return self._history.now()

    def trouble(self) -> str:
        return self._platform.health().trouble

    def warnings(self) -> list[str]:
        """What somebody who looks after the platform should know; nobody else can do anything about it."""
        return self._platform.health().warnings if self.is_admin else []

    def policy(self) -> str:
        return self._history.policy()

    # --- the cluster ------------------------------------------------------------------------------------------------

    def cluster(self, span_s: float) -> ClusterTimeline:
        """The last ``span_s`` seconds, and what is planned to follow."""
        who, history, planned = self.who, self._history, self._history.planned_timeline()
        now = self.now()
        since = now - span_s
        until = now + min(_HORIZON_SHARE * span_s, max(planned.until - now, 0.03 * span_s))
        held = history.holdings(since, now)
        bars = [bar for bar in planned.bars if bar.start < until and bar.end > now]
        records = history.records([bar.job_id for bar in bars])
        labels = {job_id: JobLabel.of(record) for job_id, record in records.items()}
        cluster, absent = history.cluster()
        past = [span for holding in held for span in held_spans(holding, who, since, now)]
        spans, left_out = largest_spans([*past, *planned_spans(bars, labels, who, now, until)])
        rows = {span.bar.job_id: span.bar.first_device for span in spans}
        incidents = history.lines(INCIDENT_KINDS, who, since=since, limit=_MOST_MARKS)
        return ClusterTimeline(
            now=now, since=since, until=until, devices=cluster.device_count,
            down=sum(node.device_count for node in cluster.nodes if node.name in absent),
            nodes=tuple(node_rows(cluster)),
            spans=spans, left_out=left_out, marks=timeline_marks(incidents, cluster, rows),
            busy=busy_devices(held, since, now), counts=history.counts(who),
            waiting=step_function(((a, b, 1.0) for a, b in history.waits(since, now)), since, now),
            power=self._measured_power() or modelled_power(cluster, held, since, now),
        )  # fmt: skip

    def active_jobs(self) -> UrgentJobs:
        """What runs and waits now, the most urgent first."""
        overview = self._platform.overview(self.who, jobs=_MOST_ACTIVE, events=0)
        records = self._history.records([job.id for job in overview.jobs])
        jobs = [
            ActiveJob(view=job, band=self._band(records[job.id]) if job.id in records else None)
            for job in overview.jobs
        ]
        shown = most_urgent(jobs, _MOST_URGENT)
        return UrgentJobs(
            now=self.now(), jobs=shown, left_out=overview.left_out + len(jobs) - len(shown),
            free=overview.devices - overview.held,
        )  # fmt: skip

    def _measured_power(self) -> ClusterPower | None:
        """As the backend tells it of the runs there are, where it does."""
        readings = [reading for reading in self._history.device_readings() if reading.power_w is not None]
        if not readings:
            return None
        return ClusterPower(
            watts=sum(reading.power_w or 0.0 for reading in readings),
            joules=sum(reading.energy_j for reading in readings), since=None,
            estimated=any(reading.estimated for reading in readings),
        )  # fmt: skip

    def nodes(self) -> list[NodeUse]:
        """Every node with what it does; of other tenants' jobs only that there are some."""
        who = self.who
        views = self._platform.nodes(who)
        holders = self._history.holders()
        seen = {record.id: JobLabel.of(record) for record in holders.values() if who.may_see(record.job.tenant)}
        numbers = {device: record.number if record.id in seen else -1 for device, record in holders.items()}
        readings = self._history.device_readings()
        loads = {
            reading.device: reading.utilisation
            for reading in readings
            if reading.utilisation is not None and reading.run_id
        }
        return [
            NodeUse(
                view=view, holders=tuple(numbers.get(device) for device in view.devices),
                labels={job: seen[job] for job in view.jobs if job in seen},
                utilisation=fmean(loads.get(device, 0.0) for device in view.devices) if loads else None,
            )
            for view in views
        ]  # fmt: skip

    def drain(self, node: str, *, now: bool = False) -> None:
        self._platform.drain(node, self.who, DrainRequest(now=now))

    def drained_jobs(self, node: str) -> list[DrainedJob]:
        """The jobs that draining a node would stop."""
        return self._platform.drained_jobs(node, self.who)

    def undrain(self, node: str) -> None:
        self._platform.undrain(node, self.who)

    def tenants(self, span_s: float) -> list[TenantUse]:
        """Usage by tenant; a user sees its own."""
        who, now = self.who, self.now()
        held = [holding for holding in self._history.holdings(now - span_s, now) if who.may_see(holding.tenant)]
        return tenant_use(held, self._history.counts_by_tenant(who), now - span_s, now)

    def tenant_accounts(self) -> list[TenantAccountView]:
        """What tenants share, hold and lend, as far as it concerns the person."""
        return self._platform.tenants.views(self.who)

    def set_tenant(self, tenant: str, fields: Mapping[str, str]) -> None:
        """Settings as they were typed in; an empty one stays as it is, and ``none`` is taken away."""
        if not re.fullmatch(TENANT_NAME, tenant):
            raise InputError(f"the tenant {tenant!r}", "letters, digits, dots, dashes and underscores")
        given = {name: text.strip() for name, text in fields.items() if text.strip()}
        wanted = {name: None if text == "none" else text for name, text in given.items()}
        self._platform.tenants.set(tenant, _checked(TenantRequest, wanted), self.who)

    def quotas(self) -> list[QuotaView]:
        """What tenants may have at most, as far as it concerns the person."""
        return self._platform.administration.quotas(self.who)

    def set_quota(self, tenant: str, limits: Mapping[str, str]) -> None:
        """Limits as they were typed in; an empty one is no limit."""
        wanted = {name: text.strip() or None for name, text in limits.items()}
        if not re.fullmatch(rf"{TENANT_NAME}|\*", tenant):
            raise InputError(f"the tenant {tenant!r}", "small letters, digits and dashes, or * for everybody else")
        self._platform.administration.set_quota(tenant, _checked(QuotaRequest, wanted), self.who)

    def tokens(self) -> list[TokenView]:
        return self._platform.administration.tokens(self.who)

    def make_token(self, *, name: str, tenant: str, role: str, expires: str | None) -> TokenView:
        """A new token, with its secret."""
        fields = {"name": name, "tenant": tenant, "role": role, "expires": expires}
        return self._platform.administration.create_token(_checked(TokenRequest, fields), self.who)

    def revoke_token(self, token_id: str) -> None:
        self._platform.administration.revoke_token(token_id, self.who)

    def all_tenants(self) -> list[str]:
        return sorted(self._history.counts_by_tenant(self.who))

    # --- jobs -------------------------------------------------------------------------------------------------------

    def jobs(self, wanted: Search) -> tuple[list[JobTableRow], int]:
        """One page of jobs, and how many there are."""
        listed, total = self._history.search(wanted, self.who)
        return [
            JobTableRow(
                view=self._platform.listed(job.row), share=job.share_done, deadline=job.deadline
            )
            for job in listed
        ], total  # fmt: skip

    def job(self, job_id: str) -> JobOverview:
        who = self.who
        record = self._platform.find(job_id, who)
        kind = record.grant.kind if record.grant is not None else record.job.curve.kinds[0]
        fingerprint, scaling = record.fingerprint, record.job.curve.scaling(kind)
        deadline = record.job.deadline
        return JobOverview(
            now=self.now(), detail=self._platform.job(job_id, who), story=self._platform.why(job_id, who),
            samples=self._data.sampler.of(job_id), band=None if record.over else self._band(record),
            deadline=deadline if math.isfinite(deadline) else None, kind=kind,
            predicted=tuple(zip(scaling.counts, scaling.rates, strict=True)) if scaling else (),
            measured=self._data.curves.points(fingerprint, kind) if fingerprint else (),
        )  # fmt: skip

    def _band(self, record: JobRecord) -> ForecastBand | None:
        likely = self._history.expected_at(record.id)
        if likely is None:
            return None
        width, kind = (
            (record.job.at_least, record.job.curve.kinds[0])
            if record.grant is None
            else (record.grant.width, record.grant.kind)
        )
        doubt = self._data.curves.uncertainty(record.fingerprint, kind, width)
        return forecast_band(self.now(), max(likely, self.now()), doubt)

    def detail(self, reference: str) -> JobDetail:
        """A job by its id, its name, or the beginning of its id."""
        who = self.who
        return self._platform.job(self._platform.resolve(reference, who), who)

    def metrics(self, job_id: str) -> JobMetricsView:
        """What a job's script logged."""
        return self._platform.metrics(job_id, self.who)

    def evaluations(self, job_id: str) -> EvaluationList:
        """What evaluations of a job's checkpoints found."""
        return self._platform.evaluations(job_id, self.who)

    def hotspots(self, job_id: str) -> JobHotspotsView:
        """Where the time of a job's steps goes."""
        return self._platform.hotspots(job_id, self.who)

    def usage(self, job_id: str) -> JobMetricsView:
        """What a job used over time."""
        return self._platform.usage(job_id, self.who)

    def cancel(self, job_id: str) -> None:
        self._platform.cancel(job_id, self.who)

    def pause(self, job_id: str, **how: bool) -> None:
        self._platform.pause(job_id, self.who, PauseRequest(**how))

    def resume(self, job_id: str, **how: Any) -> None:
        self._platform.resume(job_id, self.who, ResumeRequest(**how))

    def edit(self, job_id: str, wanted: Mapping[str, Any]) -> None:
        """New values for a job that is not over, as they were typed in."""
        self._platform.edit(job_id, self.who, _checked(EditRequest, wanted))

    def saved(self, job_id: str) -> tuple[CheckpointList, FileList]:
        """What the job can go on from, and what else lies beside it."""
        who, files = self.who, self._platform.files
        return files.checkpoints(job_id, who), files.files(job_id, who)

    def arrays(self) -> list[ArrayView]:
        """Job arrays with a job that is not over, the newest first."""
        return self._platform.arrays(self.who)

    def cancel_array(self, array: str) -> None:
        self._platform.cancel_array(array, self.who)

    def pause_array(self, array: str, **how: bool) -> None:
        self._platform.pause_array(array, self.who, PauseRequest(**how))

    def resume_array(self, array: str) -> None:
        self._platform.resume_array(array, self.who)

    def log(self, job_id: str, cursor: str | None, limit: int = 1 << 18) -> LogPage:
        """Some output, where to go on, and whether that was all."""
        return self._platform.logs(job_id, self.who, cursor=cursor, limit=limit)

    # --- submitting -------------------------------------------------------------------------------------------------

    def quote(self, spec: Mapping[str, Any]) -> QuoteView:
        return self._platform.quote(spec, self.who)

    def quotes(self, spec: Mapping[str, Any], deadlines_s: Sequence[float]) -> list[QuoteView]:
        """The same job with several deadlines, in seconds from now."""
        plain = {key: value for key, value in spec.items() if key not in ("deadline", "goal", "best_effort")}
        return [self.quote(plain | {"deadline": f"{seconds:.0f}s"}) for seconds in deadlines_s]

    def submit(self, spec: Mapping[str, Any]) -> JobDetail:
        return self._platform.submit(spec, self.who).job

    def device_power(self) -> DevicePower | None:
        """What one device draws at work: as held ones tell now, else the strongest at full load; none: nobody knows."""
        readings = [reading for reading in self._history.device_readings() if reading.power_w is not None]
        if readings:
            measured = fmean(reading.power_w or 0.0 for reading in readings)
            return DevicePower(measured, any(reading.estimated for reading in readings))
        cluster, _ = self._history.cluster()
        full = [watts for node in cluster.nodes if (watts := full_load_w(node)) is not None]
        return DevicePower(max(full), True) if full else None

    # --- what if ----------------------------------------------------------------------------------------------------

    def what_if(self, wanted: WhatIfRequest) -> WhatIfReport:
        """The past under other rules, for admins."""
        return self._platform.what_if(wanted, self.who)
