"""The platform at a glance: devices, queue, active jobs and news in one view, as `penstock top` shows it."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from penstock.control.future.forecasts import Forecasts
from penstock.control.loop.reconciler import Reconciler
from penstock.control.loop.run_figures import RunFigures
from penstock.control.observe.device_readings import DeviceReading, DeviceReadings
from penstock.control.observe.job_counts import promised
from penstock.control.platform.presenter import event_view
from penstock.control.state.journal import Journal
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Principal
from penstock.wire import BOOKKEEPING, OVER, DeviceView, EventView, JobGlance, JobPhase, NodeGlance, OverviewView, stamp

_WAITING = frozenset({JobPhase.BLOCKED, JobPhase.PREPARING, JobPhase.ASKING, JobPhase.PENDING})
_NOT_NEWS = BOOKKEEPING | {"Progressed"}
_LOOK_BACK = 200
"""Entries of the log that are looked through for news; most of them only correct a figure."""


class Overview:
    """Reads the whole platform in one pass over its active jobs."""

    def __init__(
        self, journal: Journal, reconciler: Reconciler, forecasts: Forecasts, readings: DeviceReadings
    ) -> None:
        self._journal = journal
        self._reconciler = reconciler
        self._forecasts = forecasts
        self._readings = readings

    def view(self, who: Principal, *, jobs: int, events: int) -> OverviewView:
        """Up to so many active jobs and news; the counts are of everything that may be seen."""
        now = self._journal.now()
        readings = {reading.device: reading for reading in self._readings.readings() if reading.run_id}
        over = self._journal.over_counts()
        with self._journal.reading() as state:
            seen = [(record, state.phase(record)) for record in state.jobs.values() if who.may_see(record.job.tenant)]
            active = sorted((pair for pair in seen if pair[1] not in OVER), key=_order)
            fields: dict[str, Any] = {
                "now": stamp(now), "policy": state.settings.policy if state.settings is not None else "",
                "trouble": self._reconciler.trouble, "warnings": self._journal.warnings,
                "counts": _counts(over, (phase for _, phase in seen), who),
                "oldest_wait_s": _oldest_wait_s(active, now), **_cluster(state, who, readings),
                "jobs": [self._job(state, record, phase, now) for record, phase in active[:jobs]],
                "left_out": max(0, len(active) - jobs),
            }  # fmt: skip
        return OverviewView.model_validate({**fields, "events": self._news(who, events)})

    def _job(self, state: PlatformState, record: JobRecord, phase: JobPhase, now: float) -> JobGlance:
        gauge = self._reconciler.run_figures.get(record.run_id, RunFigures())
        left = state.remaining(record, now) / record.work if record.work > 0 else 0.0
        return JobGlance.model_validate(
            {
                "id": record.id, "number": record.number, "name": record.submission.name,
                "tenant": record.job.tenant, "state": phase.value,
                "devices": record.grant.width if record.grant is not None else 0,
                "share_done": min(max(1.0 - left, 0.0), 1.0), "submitted_at": stamp(record.submission.at),
                "started_at": stamp(record.started_at), "deadline": stamp(record.job.deadline),
                "promised": promised(record), "forecast_at": stamp(self._forecasts.expected_at(record.id)),
                "step": gauge.step, "total": gauge.total, "loss": _finite(gauge.loss), "failures": record.failures,
            }
        )  # fmt: skip

    def _news(self, who: Principal, count: int) -> list[EventView]:
        """The latest entries that say more than that time passed."""
        after = max(0, self._journal.seq - _LOOK_BACK)
        lines = self._journal.store.log.page(after=after, limit=_LOOK_BACK, tenant=who.sees)
        news = [line for line in lines if line.kind not in _NOT_NEWS]
        return [event_view(line) for line in news[-count:]] if count else []


def _counts(over: Mapping[tuple[str, str], int], there: Iterable[JobPhase], who: Principal) -> Counter[str]:
    """Jobs by state: archived ones that may be seen, and those that are there."""
    counts = Counter(phase.value for phase in there)
    for (state, tenant), many in over.items():
        if who.may_see(tenant):
            counts[state] += many
    return counts


def _order(pair: tuple[JobRecord, JobPhase]) -> tuple[bool, int]:
    record, _ = pair
    return record.grant is None, record.number


def _oldest_wait_s(active: Sequence[tuple[JobRecord, JobPhase]], now: float) -> float | None:
    waits = [now - record.submission.at for record, phase in active if phase in _WAITING and record.started_at is None]
    return max(waits, default=None)


def _cluster(state: PlatformState, who: Principal, readings: dict[int, DeviceReading]) -> dict[str, Any]:
    holders = {
        device: record.id if who.may_see(record.job.tenant) else None
        for record in state.engaged.values()
        if record.grant is not None
        for device in record.grant.devices
    }
    cluster = state.scheduler.cluster
    nodes = []
    for position, node in cluster.present():
        availability = state.availability(node.name)
        devices = [_device(index, availability, holders, readings) for index in cluster.devices_of(position)]
        nodes.append(NodeGlance(name=node.name, kind=node.kind, state=availability, devices=devices))
    loads = [reading.utilisation for reading in readings.values() if reading.utilisation is not None]
    watts = [reading.power_w for reading in readings.values() if reading.power_w is not None]
    return {
        "nodes": nodes, "held": len(holders), "devices": sum(len(node.devices) for node in nodes if node.state == "up"),
        "utilisation": fmean(loads) if loads else None, "power_w": sum(watts) if watts else None,
    }  # fmt: skip


def _device(
    index: int, node_state: str, holders: dict[int, str | None], readings: dict[int, DeviceReading]
) -> DeviceView:
    reading = readings.get(index)
    state = "held" if index in holders else "free" if node_state == "up" else node_state
    figures = {name: getattr(reading, name, None) for name in ("utilisation", "power_w", "memory_bytes")}
    return DeviceView(index=index, state=state, job_id=holders.get(index), **figures)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
