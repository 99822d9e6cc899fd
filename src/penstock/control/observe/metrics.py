"""What Prometheus is told: one registry per server, bounded labels, base units.

Two sources. Things that happen are counted as they pass: a watcher sees every entry the journal takes in and how long
that took, a middleware every request. Things that are, such as jobs by state, are read from the state when somebody
asks. Nothing here is kept: after a restart counters begin at zero, as Prometheus expects.
"""

import platform as machine
import time
from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.control.loop.reconciler import Reconciler
from penstock.control.observe.device_readings import DeviceReadings
from penstock.control.observe.job_counts import JobCounts, promised
from penstock.control.state.entries import Entry, Launched, Resized, RunFailed, RunWatched, Submitted, WorkerLost
from penstock.control.state.journal import Journal
from penstock.control.state.records import JobRecord
from penstock.core import LATE_TOLERANCE_S, WATCHED, FailureReason, Verdict
from penstock.policies import TenantTable
from penstock.wire import OVER, JobPhase

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for every counter that nobody asks for
PREFIX = "penstock"
OTHER = "other"
_MOST_TENANTS = 100
_WAITS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600)
_PAUSES = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 120)
_SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Metrics:
    """All instruments of one server. The journal tells :meth:`recorded`, the loop :meth:`passed`."""

    def __init__(self, journal: Journal, reconciler: Reconciler, readings: DeviceReadings) -> None:
        self.registry = CollectorRegistry()
        self.readings = readings
        self._tenants = _Bounded(_MOST_TENANTS)
        self._last_pass = time.monotonic()
        self._make_instruments()
        ProcessCollector(registry=self.registry)
        self.registry.register(_StateCollector(journal, reconciler, self))
        self.job_counts = JobCounts(self.tenant, journal.over_counts)
        self.job_counts.follows(journal.state)
        self._journal = journal
        self._overdue: dict[str, float] = {}

    def _make_instruments(self) -> None:
        counter, histogram = self._counter, self._histogram
        self.submitted = counter("jobs_submitted", "Jobs handed in.", "tenant")
        self.ended = counter("jobs_ended", "Jobs that are over.", "tenant", "state")
        self.promises_made = counter("promises_made", "Deadlines promised.", "tenant")
        self.promises_kept = counter("promises_kept", "Promised jobs that finished by their deadline.", "tenant")
        self.promises_broken = counter("promises_broken", "Promised jobs that are late or failed.", "tenant")
        self.promises_refused = counter("promises_refused", "Jobs told that their deadline cannot be kept.", "tenant")
        self.promises_withdrawn = counter("promises_withdrawn", "Promises taken back under other rules.", "tenant")
        self.queue_wait = histogram("queue_wait_seconds", "From submission to the first running worker.", _WAITS)
        self.resizes = counter("resizes", "Changes of the number of workers, in place or by a restart.", "in_place")
        self.pauses = histogram("resize_pause_seconds", "How long training stood still for a resize.", _PAUSES)
        self.failures = counter("run_failures", "Runs that ended badly.", "reason")
        self.notices = counter("run_notices", "What was seen in runs while they train.", "kind")
        self.restarts = counter("run_restarts", "Failed runs that are tried again.")
        self.worker_losses = counter("worker_losses", "Workers that died under a run that went on.")
        self.decisions = histogram("decision_duration_seconds", "Taking in one entry and deciding on it.", _SHORT)
        self.entries = counter("log_entries", "Entries written to the log.", "kind")
        self.writes = histogram("log_write_duration_seconds", "Committing entries to the log.", _SHORT)
        self.reconciles = histogram("reconcile_duration_seconds", "One pass of the loop.", _SHORT)
        self.requests = counter("http_requests", "Requests answered.", "method", "route", "code")
        self.latency = histogram(
            "http_request_duration_seconds", "From the request to the first byte of the answer.", _SHORT, "method",
            "route",
        )  # fmt: skip

    def recorded(self, entries: Sequence[Entry], write_s: float, apply_s: float) -> None:
        """The journal took these in; called with its lock held."""
        if entries:
            self.writes.observe(write_s)
        for entry in entries:
            self.entries.labels(type(entry).__name__).inc()
            self.decisions.observe(apply_s / len(entries))
            self._count(entry)
        state = self._journal.state
        if self.job_counts.follows(state):
            for job_id in state.changed & state.jobs.keys():
                self._follow(state.jobs[job_id])

    def passed(self, seconds: float) -> None:
        """The loop has gone round."""
        self._last_pass = time.monotonic()
        self.reconciles.observe(seconds)
        self._count_overdue()

    def _count_overdue(self) -> None:
        """A promise is broken when its deadline has passed, whether or not the job ends."""
        now, open_promises = self._journal.now(), self.job_counts.promises
        if all(
            at + LATE_TOLERANCE_S >= now or self._overdue.get(name) == at for name, at in list(open_promises.items())
        ):
            return
        with self._journal.lock:
            for job_id, at in open_promises.items():
                if at + LATE_TOLERANCE_S < now and self._overdue.get(job_id) != at:
                    self._overdue[job_id] = at
                    tenant = self.tenant(self._journal.state.jobs[job_id].job.tenant)
                    self.promises_broken.labels(tenant).inc()

    def answered(self, method: str, route: str, code: int, seconds: float) -> None:
        self.requests.labels(method, route, str(code)).inc()
        self.latency.labels(method, route).observe(seconds)

    @property
    def lag_s(self) -> float:
        """Since the loop last went round."""
        return time.monotonic() - self._last_pass

    def tenant(self, name: str) -> str:
        return self._tenants(name)

    @property
    def tenants(self) -> frozenset[str]:
        """The tenants that have, or had, a job."""
        return frozenset(self._tenants.known)

    def _count(self, entry: Entry) -> None:
        match entry:
            case Submitted():
                self.submitted.labels(self.tenant(entry.job.tenant)).inc()
            case Launched():
                self._waited(entry)
            case Resized():
                self.resizes.labels("unknown" if entry.in_place is None else str(entry.in_place).lower()).inc()
                if entry.pause_s is not None:
                    self.pauses.observe(entry.pause_s)
            case WorkerLost():
                self.worker_losses.inc()
            case RunWatched():
                self.notices.labels(entry.kind if entry.kind in set(WATCHED) else OTHER).inc()
            case RunFailed():
                self.failures.labels(entry.reason if entry.reason in set(FailureReason) else OTHER).inc()
                if entry.retry_at is not None:
                    self.restarts.inc()

    def _waited(self, entry: Launched) -> None:
        record = self._journal.state.jobs.get(entry.job_id)
        if record is not None and record.started_at == entry.at:
            self.queue_wait.observe(max(0.0, entry.at - record.submission.at))

    def _follow(self, record: JobRecord) -> None:
        """Count what a job has become since it was last looked at."""
        before, now = self.job_counts.update(record)
        verdict_before, phase_before = (before.verdict, before.phase) if before is not None else (None, None)
        if now.verdict is not verdict_before and now.verdict is Verdict.PROMISED:
            self.promises_made.labels(now.tenant).inc()
        if now.verdict is not verdict_before and now.verdict is Verdict.REFUSED:
            self.promises_refused.labels(now.tenant).inc()
        if (
            verdict_before is Verdict.PROMISED
            and now.verdict is Verdict.BEST_EFFORT
            and phase_before != JobPhase.PAUSED
        ):
            self.promises_withdrawn.labels(now.tenant).inc()
        if now.phase is not phase_before and now.phase in OVER:
            self.ended.labels(now.tenant, now.phase.value).inc()
            self._settle(record, now.tenant)

    def _settle(self, record: JobRecord, tenant: str) -> None:
        """A promise is settled when its job is over, if it was not broken before; one that was cancelled is neither."""
        if not promised(record) or record.mark not in (JobPhase.FINISHED, JobPhase.FAILED):
            return
        if self._overdue.pop(record.id, None) == record.job.deadline:
            return
        kept = record.mark is JobPhase.FINISHED and (record.ended_at or 0.0) <= record.job.deadline + LATE_TOLERANCE_S
        (self.promises_kept if kept else self.promises_broken).labels(tenant).inc()

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", meaning, labels, registry=self.registry)

    def _histogram(self, name: str, meaning: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(f"{PREFIX}_{name}", meaning, labels, registry=self.registry, buckets=buckets)


class _Bounded:
    """The first so many names as they are, and one name for all later ones: labels must not grow without end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.known: set[str] = set()

    def __call__(self, name: str) -> str:
        if name not in self.known and len(self.known) < self._most:
            self.known.add(name)
        return name if name in self.known else OTHER


class _StateCollector(Collector):
    """What is, when somebody asks. O(jobs that wait + devices): jobs are counted as they change.

    Nothing waits for the journal, which may be deciding on thousands of jobs: what changes meanwhile is copied in one
    piece (``dict`` and ``list`` of a dictionary run no code of ours) and may be one entry apart from the next figure.
    """

    def __init__(self, journal: Journal, reconciler: Reconciler, metrics: Metrics) -> None:
        self._journal = journal
        self._reconciler = reconciler
        self._metrics = metrics
        self._tenant_table: TenantTable | None = None

    def describe(self) -> list[Metric]:
        """Nothing to look at when it is registered: the state may still be empty."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield self._build()
        yield from self._job_gauges()
        yield from self._device_gauges()
        yield from self._tenant_gauges()
        step = "How far the wall clock is from the time that is believed."
        yield _gauge("clock_step_seconds", step, self._journal.clock_step_s)
        yield _gauge("reconcile_lag_seconds", "Since the loop last went round.", self._metrics.lag_s)
        yield _gauge("ready", "1 while the platform does its work.", float(not self._reconciler.trouble))
        set_aside = float(len(self._journal.quarantine))
        yield _gauge("entries_set_aside", "Entries of the log that could not be read or taken in.", set_aside)
        yield from self._readings()

    def _build(self) -> Metric:
        info = GaugeMetricFamily(
            f"{PREFIX}_build_info", "Which software answers.", labels=("version", "python", "policy")
        )
        settings = self._journal.state.settings
        policy = settings.policy if settings is not None else ""
        info.add_metric((version("penstock"), machine.python_version(), policy), 1)
        return info

    def _job_gauges(self) -> Iterator[Metric]:
        now, job_counts = self._journal.now(), self._metrics.job_counts
        counts = Tally({key: count for key, count in dict(job_counts.counts).items() if count})
        since = min(list(job_counts.waiting.values()), default=now)
        deadlines = list(job_counts.promises.values())
        yield _family("jobs", "Jobs there are, by state.", ("state", "tenant"), counts)
        yield _gauge(
            "queue_oldest_seconds", "How long the job has waited that waits longest for its start.", now - since
        )
        yield _gauge("promises_open", "Promised jobs that are not over.", len(deadlines))
        yield _gauge(
            "promises_overdue",
            "Promised jobs that are not over and past their deadline.",
            sum(at < now for at in deadlines),
        )

    def _device_gauges(self) -> Iterator[Metric]:
        devices: Tally[tuple[str, str]] = Tally()
        nodes: Tally[tuple[str, str]] = Tally()
        state = self._journal.state
        grants = [record.grant for record in list(state.engaged.values())]
        held = {device for grant in grants if grant is not None for device in grant.devices}
        cluster = state.scheduler.cluster
        for position, node in cluster.present():
            availability = state.availability(node.name)
            nodes[node.kind, availability] += 1
            for device in cluster.devices_of(position):
                free = "free" if availability == "up" else availability
                devices[node.kind, "held" if device in held else free] += 1
        yield _family("devices", "Devices, by what they are doing.", ("kind", "state"), devices)
        yield _family("nodes", "Nodes, by whether they take jobs.", ("kind", "state"), nodes)

    def _tenant_gauges(self) -> Iterator[Metric]:
        """As of the last time at which nobody was changing them: their columns have to fit together."""
        if self._journal.lock.acquire(blocking=False):
            try:
                self._tenant_table = self._journal.state.scheduler.tenants(self._journal.now())
            finally:
                self._journal.lock.release()
        if (table := self._tenant_table) is None:
            return
        fairness = _labelled("tenant_fairness", "Device-time used over deserved, of the last day.", ("tenant",))
        used = _labelled("tenant_used_device_seconds", "Device-time held in the last day.", ("tenant",))
        deserved = _labelled("tenant_deserved_device_seconds", "Device-time deserved in the last day.", ("tenant",))
        held = _labelled("tenant_held_devices", "Devices held now.", ("tenant",))
        columns = (table.fairness, table.used_lately, table.deserved_lately, table.held)
        for position, name in enumerate(table.names[:_MOST_TENANTS]):
            for family, column in zip((fairness, used, deserved, held), columns, strict=True):
                family.add_metric((name,), float(column[position]))
        yield from (fairness, used, deserved, held)

    def _readings(self) -> Iterator[Metric]:
        labels, sourced = ("node", "device", "kind"), ("node", "device", "kind", "source")
        use = _labelled("device_utilisation_ratio", "How busy a held device is.", labels)
        memory = _labelled("device_memory_used_bytes", "Memory in use on a held device.", labels)
        power = _labelled("device_power_watts", "What a held device draws.", sourced)
        energy = CounterMetricFamily(f"{PREFIX}_device_energy_joules", "Energy drawn while held.", labels=sourced)
        for reading in self._metrics.readings.readings():
            where = (reading.node, str(reading.slot), reading.kind)
            source = (*where, "estimated" if reading.estimated else "measured")
            _add(use, where, reading.utilisation)
            _add(memory, where, reading.memory_bytes)
            _add(power, source, reading.power_w)
            _add(energy, source, reading.energy_j or None)
        yield from (use, power, memory, energy)


def _add(family: GaugeMetricFamily | CounterMetricFamily, labels: Sequence[str], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)


def _labelled(name: str, meaning: str, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", meaning, labels=labels)


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}_{name}", meaning, value=value)


def _family(name: str, meaning: str, labels: tuple[str, str], counts: "Tally[tuple[str, str]]") -> Metric:
    family = _labelled(name, meaning, labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family
