"""What is kept, as pictures of it: plain values that a chart or a table can be made of.

Pure: rows, a person and a time go in. Whatever that person may not see is gone when it comes out.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.control import Holding, JobRecord, Line, Principal, full_load_w
from penstock.core import Cluster
from penstock.learn import Point
from penstock.simulate import Bar, bars_of, node_rows
from penstock.web.format import WAITING
from penstock.web.progress_history import Sample
from penstock.wire import JobDetail, JobGlance, JobView, NodeView, StoryView

INCIDENT_KINDS = ("WorkerLost", "RunFailed", "NodeLeft", "NodeCame")
MOST_SPANS = 1500
_POINTS = 240
StepFunction = tuple[tuple[float, float], ...]
"""A step function: from each time on this value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLabel:
    """How a job is called, and whose it is."""

    name: str
    tenant: str
    number: int

    @classmethod
    def of(cls, record: JobRecord) -> "JobLabel":
        return cls(name=record.submission.name, tenant=record.job.tenant, number=record.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpan:
    """A bar and whose it is; ``width`` are all devices of its job. Of a job one may not see, only the fact is shown."""

    bar: Bar
    width: int
    name: str = "another tenant"
    number: int = -1
    planned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineMark:
    """Something that happened at a moment; ``row`` is the device where it belongs in the timeline."""

    at: float
    text: str
    bad: bool
    row: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPower:
    """Watts now and joules since a time, or since the server started; ``estimated``: not by a meter."""

    watts: float
    joules: float
    since: float | None
    estimated: bool = True


@dataclass(frozen=True, slots=True)
class DevicePower:
    """Watts of one device at work, and whether they are a model's and not a meter's."""

    watts: float
    estimated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTimeline:
    """The cluster over a window of time, from the past into the planned future."""

    now: float
    since: float
    until: float
    devices: int
    down: int
    nodes: tuple[tuple[int, str], ...]
    spans: tuple[DeviceSpan, ...]
    left_out: int
    marks: tuple[TimelineMark, ...]
    busy: StepFunction
    waiting: StepFunction
    counts: Mapping[str, int]
    power: ClusterPower | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUse:
    """A node, and by device the number of the job that holds it: -1 for a job one may not see, ``None`` for nobody.

    ``labels`` are of the jobs on it that one may see.
    """

    view: NodeView
    holders: tuple[int | None, ...]
    labels: Mapping[str, JobLabel]
    utilisation: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTableRow:
    """One row of the list of jobs, how much of it is done, and until when it is wanted."""

    view: JobView
    share: float
    deadline: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastBand:
    """When a job will be done: most likely, and between which times if its speed is known only so well."""

    early: float
    likely: float
    late: float


class Risk(StrEnum):
    """Where a job's expected end lies beside its deadline, the most urgent first."""

    LATE = "late"
    TIGHT = "tight"
    UNKNOWN = "not known yet"
    ON_TIME = "on time"
    NO_DEADLINE = "no deadline"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveJob:
    """A job that is not over, and what its forecast means for its deadline."""

    view: JobGlance
    band: ForecastBand | None

    @property
    def risk(self) -> Risk:
        """Tight: it may be late if its speed is off by as much as it may be."""
        if self.view.deadline is None:
            return Risk.NO_DEADLINE
        if self.band is None:
            return Risk.UNKNOWN
        deadline = self.view.deadline.timestamp()
        return Risk.LATE if self.band.likely > deadline else Risk.TIGHT if self.band.late > deadline else Risk.ON_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgentJobs:
    """The most urgent of the jobs that are not over, how many more there are, and devices that nobody holds."""

    now: float
    jobs: tuple[ActiveJob, ...]
    left_out: int
    free: int


def most_urgent(jobs: Iterable[ActiveJob], most: int) -> tuple[ActiveJob, ...]:
    """Those that run first, and among them those that might break a promise."""
    ranks = {risk: rank for rank, risk in enumerate(Risk)}
    ordered = sorted(jobs, key=lambda job: (not job.view.devices, ranks[job.risk], job.view.number))
    return tuple(ordered[:most])


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOverview:
    """Everything on the page of one job."""

    now: float
    detail: JobDetail
    story: StoryView
    samples: list[Sample]
    band: ForecastBand | None
    deadline: float | None
    kind: str
    predicted: tuple[tuple[int, float], ...]
    measured: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantUse:
    """What one tenant holds and held; ``buckets`` are mean devices over equal parts of the viewer."""

    tenant: str
    devices: int
    running: int
    waiting: int
    device_seconds: float
    share: float
    buckets: tuple[float, ...]


def held_spans(holding: Holding, who: Principal, since: float, now: float) -> Iterator[DeviceSpan]:
    """A holding inside a window, as far as somebody may see it."""
    start, end = max(holding.since, since), now if holding.until is None else min(holding.until, now)
    job = JobLabel(name=holding.name, tenant=holding.tenant, number=holding.number)
    for bar in bars_of(holding.job_id, holding.devices, start, end):
        yield _span(bar, job, who, width=len(holding.devices))


def planned_spans(
    bars: Iterable[Bar], names: Mapping[str, JobLabel], who: Principal, now: float, until: float
) -> Iterator[DeviceSpan]:
    for bar in bars:
        inside = bar.clipped(now, until)
        if inside is not None and bar.job_id in names:
            yield _span(inside, names[bar.job_id], who, width=bar.count, planned=True)


def _span(bar: Bar, job: JobLabel, who: Principal, *, width: int, planned: bool = False) -> DeviceSpan:
    if who.may_see(job.tenant):
        return DeviceSpan(bar=bar, width=width, name=job.name, number=job.number, planned=planned)
    return DeviceSpan(bar=replace(bar, job_id=""), width=width, planned=planned)


def largest_spans(spans: Sequence[DeviceSpan], most: int = MOST_SPANS) -> tuple[tuple[DeviceSpan, ...], int]:
    """As many as a browser draws at ease, the largest first to stay, and how many had to go."""
    if len(spans) <= most:
        return tuple(spans), 0
    largest = sorted(spans, key=lambda span: span.bar.device_seconds, reverse=True)[:most]
    return tuple(sorted(largest, key=lambda span: (span.bar.start, span.bar.first_device))), len(spans) - most


def busy_devices(holdings: Iterable[Holding], since: float, now: float) -> StepFunction:
    """How many devices were held, over time."""
    spans = ((max(h.since, since), now if h.until is None else min(h.until, now), len(h.devices)) for h in holdings)
    return step_function(spans, since, now)


def step_function(spans: Iterable[tuple[float, float, float]], since: float, until: float) -> StepFunction:
    """The sum of (from, to, amount) over time, at most a few hundred steps of it."""
    changes: dict[float, float] = {since: 0.0}
    for start, end, amount in spans:
        if end > start:
            changes[start] = changes.get(start, 0.0) + amount
            changes[end] = changes.get(end, 0.0) - amount
    level, steps = 0.0, []
    for at in sorted(changes):
        level += changes[at]
        steps.append((at, level))
    return (*thinned(steps, since, until), (until, steps[-1][1] if until not in changes else steps[-2][1]))


def thinned(steps: Sequence[tuple[float, float]], since: float, until: float) -> Iterator[tuple[float, float]]:
    """The last step of each of a few hundred equal parts of the viewer."""
    width = max(until - since, 1e-9) / _POINTS
    for position, (at, level) in enumerate(steps):
        last = position + 1 == len(steps) or int((steps[position + 1][0] - since) / width) != int((at - since) / width)
        if last and at < until:
            yield at, level


def timeline_marks(lines: Iterable[Line], cluster: Cluster, rows: Mapping[str, int]) -> tuple[TimelineMark, ...]:
    """What went wrong, and what came back; ``rows`` says where each job is drawn."""
    nodes = {name: first for first, name in node_rows(cluster)}
    marks = []
    for line in lines:
        node = line.payload.get("node")
        name = node.get("name") if isinstance(node, dict) else node
        row = nodes.get(str(name), 0) if name else rows.get(line.job_id or "", 0)
        marks.append(TimelineMark(at=line.at, text=_incident(line, str(name)), bad=line.kind != "NodeCame", row=row))
    return tuple(marks)


def _incident(line: Line, node: str) -> str:
    payload = line.payload
    match line.kind:
        case "NodeLeft":
            reason = f": {payload['reason']}" if payload.get("reason") else ""
            return f"{node} was {payload.get('why', 'lost')}{reason}"
        case "NodeCame":
            return f"{node} came back"
        case "WorkerLost":
            how = f"signal {payload['signal']}" if payload.get("signal") else f"code {payload.get('code')}"
            return f"worker {payload.get('worker')} of {line.job_id} ended ({how})"
    return f"a run of {line.job_id} failed ({payload.get('reason')})"


def modelled_power(cluster: Cluster, holdings: Iterable[Holding], since: float, now: float) -> ClusterPower | None:
    """By the nodes' power models: idle watts of every device, those at full load of every one that is held."""
    peaks = [full_load_w(node) for node in cluster.nodes]
    if not any(peaks):
        return None
    idle = sum(node.power.idle_w * node.device_count for node in cluster.nodes)
    watts, joules = idle, idle * (now - since)
    for holding in holdings:
        places = [cluster.node_of(device) for device in holding.devices if device < cluster.device_count]
        extra = sum((peaks[place] or 0.0) - cluster.nodes[place].power.idle_w for place in places)
        end = now if holding.until is None else min(holding.until, now)
        joules += extra * max(0.0, end - max(holding.since, since))
        watts += extra if holding.until is None else 0.0
    return ClusterPower(watts=watts, joules=joules, since=since)


def tenant_use(
    holdings: Iterable[Holding], counts: Mapping[str, Mapping[str, int]], since: float, now: float, parts: int = 48
) -> list[TenantUse]:
    """Who used how much; ``counts`` are jobs by tenant and state."""
    width = (now - since) / parts
    used: dict[str, list[float]] = {tenant: [0.0] * parts for tenant in counts}
    holding_now = dict.fromkeys(counts, 0)
    for holding in holdings:
        buckets = used.setdefault(holding.tenant, [0.0] * parts)
        start, end = max(holding.since, since), now if holding.until is None else min(holding.until, now)
        for part in range(max(0, int((start - since) / width)), min(parts, math.ceil((end - since) / width))):
            overlap = min(end, since + (part + 1) * width) - max(start, since + part * width)
            buckets[part] += max(0.0, overlap) * len(holding.devices)
        if holding.until is None:
            holding_now[holding.tenant] = holding_now.get(holding.tenant, 0) + len(holding.devices)
    total = sum(map(sum, used.values()))
    lines = [
        TenantUse(
            tenant=tenant, devices=holding_now.get(tenant, 0), running=counts.get(tenant, {}).get("running", 0),
            waiting=sum(counts.get(tenant, {}).get(state, 0) for state in WAITING),
            device_seconds=sum(buckets), share=sum(buckets) / total if total else 0.0,
            buckets=tuple(bucket / width for bucket in buckets),
        )
        for tenant, buckets in used.items()
    ]  # fmt: skip
    return sorted(lines, key=lambda line: (-line.device_seconds, line.tenant))


def forecast_band(now: float, likely: float, uncertainty: float) -> ForecastBand:
    """A rate that may be off by a share may end so much earlier, or later."""
    spread = min(max(uncertainty, 0.0), 1.0)
    left = max(0.0, likely - now)
    return ForecastBand(early=now + left / (1.0 + spread), likely=likely, late=now + left * (1.0 + spread))
