"""``/v1/overview``: what `penstock top` shows."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Any

from fastapi import APIRouter, Query

from penstock.control.api.services import Platform, Services, Who
from penstock.control.loop.run_figures import RunFigures
from penstock.control.observe.device_readings import Reading
from penstock.control.observe.job_counts import promised
from penstock.control.platform.presenter import event_view
from penstock.control.state.platform_state import PlatformState
from penstock.control.state.records import JobRecord
from penstock.control.state.store import Principal
from penstock.wire import BOOKKEEPING, OVER, DeviceView, EventView, JobGlance, JobPhase, NodeGlance, OverviewView, stamp

router = APIRouter(prefix="/v1", tags=["platform"])
_WAITING = frozenset({JobPhase.ASKING, JobPhase.PENDING})
_UNTOLD = BOOKKEEPING | {"Progressed"}
_LOOK_BACK = 200
"""Entries of the log that are looked through for news; most of them only correct a figure."""


@router.get("/overview")
def overview(
    platform: Platform,
    who: Who,
    jobs: Annotated[int, Query(ge=0, le=1000)] = 50,
    events: Annotated[int, Query(ge=0, le=100)] = 8,
) -> OverviewView:
    """Devices, queue, active jobs with their promises and forecasts, and the latest news."""
    now = platform.journal.now()
    readings = {reading.device: reading for reading in platform.metrics.meters.readings() if reading.run_id}
    with platform.journal.reading() as state:
        seen = [(record, state.phase(record)) for record in state.jobs.values() if who.may_see(record.job.tenant)]
        active = sorted((one for one in seen if one[1] not in OVER), key=_order)
        told: dict[str, Any] = {
            "now": stamp(now), "policy": state.settings.policy if state.settings is not None else "",
            "trouble": platform.reconciler.trouble, "counts": Counter(phase.value for _, phase in seen),
            "oldest_wait_s": _oldest_wait_s(active, now), **_cluster(state, who, readings),
            "jobs": [_job(platform, state, *one, now) for one in active[:jobs]],
            "left_out": max(0, len(active) - jobs),
        }  # fmt: skip
    return OverviewView.model_validate({**told, "events": _news(platform, who, events)})


def _order(one: tuple[JobRecord, JobPhase]) -> tuple[bool, int]:
    record, _ = one
    return record.grant is None, record.number


def _oldest_wait_s(active: Sequence[tuple[JobRecord, JobPhase]], now: float) -> float | None:
    waits = [now - record.submission.at for record, phase in active if phase in _WAITING and record.started_at is None]
    return max(waits, default=None)


def _cluster(state: PlatformState, who: Principal, readings: dict[int, Reading]) -> dict[str, Any]:
    holders = {
        device: record.id if who.may_see(record.job.tenant) else None
        for record in state.engaged.values()
        if record.grant is not None
        for device in record.grant.devices
    }
    cluster = state.scheduler.cluster
    nodes = []
    for place, node in enumerate(cluster.nodes):
        standing = state.absent[node.name].value if node.name in state.absent else "up"
        devices = [_device(index, standing, holders, readings) for index in cluster.devices_of(place)]
        nodes.append(NodeGlance(name=node.name, kind=node.kind, state=standing, devices=devices))
    busy = [one.utilisation for one in readings.values() if one.utilisation is not None]
    watts = [one.power_w for one in readings.values() if one.power_w is not None]
    return {
        "nodes": nodes, "held": len(holders), "devices": sum(len(one.devices) for one in nodes if one.state == "up"),
        "utilisation": fmean(busy) if busy else None, "power_w": sum(watts) if watts else None,
    }  # fmt: skip


def _device(index: int, node_state: str, holders: dict[int, str | None], readings: dict[int, Reading]) -> DeviceView:
    reading = readings.get(index)
    state = "held" if index in holders else "free" if node_state == "up" else node_state
    figures = {name: getattr(reading, name, None) for name in ("utilisation", "power_w", "memory_bytes")}
    return DeviceView(index=index, state=state, job_id=holders.get(index), **figures)


def _job(platform: Services, state: PlatformState, record: JobRecord, phase: JobPhase, now: float) -> JobGlance:
    gauge = platform.reconciler.run_figures.get(record.run_id, RunFigures())
    left = state.remaining(record, now) / record.work if record.work > 0 else 0.0
    return JobGlance.model_validate(
        {
            "id": record.id, "number": record.number, "name": record.submission.name, "tenant": record.job.tenant,
            "state": phase.value, "devices": record.grant.width if record.grant is not None else 0,
            "share_done": min(max(1.0 - left, 0.0), 1.0), "submitted_at": stamp(record.submission.at),
            "started_at": stamp(record.started_at), "deadline": stamp(record.job.deadline),
            "promised": promised(record), "forecast_at": stamp(platform.desk.forecasts.expected_at(record.id)),
            "step": gauge.step, "total": gauge.total, "loss": _finite(gauge.loss), "failures": record.failures,
        }
    )  # fmt: skip


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _news(platform: Services, who: Principal, count: int) -> list[EventView]:
    """The latest entries that say more than that time passed."""
    after = max(0, platform.journal.seq - _LOOK_BACK)
    lines = platform.journal.store.log.page(after=after, limit=_LOOK_BACK, tenant=who.sees)
    news = [line for line in lines if line.kind not in _UNTOLD]
    return [event_view(line) for line in news[-count:]] if count else []
