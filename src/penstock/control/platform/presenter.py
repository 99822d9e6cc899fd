"""From records and rows to the views that people are shown."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from penstock.control.evaluation.history import PastEvaluation
from penstock.control.future.forecasts import Forecasts
from penstock.control.loop.reconciler import Reconciler
from penstock.control.loop.run_figures import RunFigures
from penstock.control.observe.device_readings import DeviceReadings
from penstock.control.platform.array_listing import ArrayRow
from penstock.control.platform.failure_line import failure_line
from penstock.control.platform.redaction import redacted_payload, redacted_spec
from penstock.control.platform.stop_outlook import stop_view
from penstock.control.state.journal import Journal
from penstock.control.state.promise_state import promise_state
from penstock.control.state.records import JobRecord
from penstock.control.state.store import AuditEntry, GrantRow, JobRow, Line, Principal
from penstock.core import Deadline, DeviceSlot, Node, NodeHealth, ValueStep, Verdict
from penstock.scheduler import Entry as Note
from penstock.wire import (
    ArrayView,
    AuditView,
    DiagnosisView,
    EvaluationView,
    EventView,
    JobDetail,
    JobPhase,
    JobView,
    NodeView,
    NoteView,
    ProgressView,
    QuoteView,
    StintView,
    StopView,
    StoryView,
    TokenView,
    UsageView,
    ValueStepView,
    stamp,
)

_MOMENTS = ("deadline", "finish_at", "counter_offer", "offer_until", "answer_by", "expected_at")
_USED = (
    "cpu_percent",
    "memory_bytes",
    "device_percent",
    "device_memory_bytes",
    "power_w",
    "memory_limit_bytes",
    "unlimited",
)
_PEAKS = ("peak_cpu_percent", "peak_memory_bytes", "peak_device_memory_bytes")
_MOST_EVALUATIONS = 50
"""In a story; all of them are listed elsewhere."""
_ROW = ("id", "number", "name", "tenant", "state", "devices", "run_id", "failures", "tail")


def quote_view(quote: Mapping[str, Any]) -> QuoteView:
    moments = {name: stamp(quote.get(name)) for name in _MOMENTS}
    plain = {name: quote.get(name) for name in ("verdict", "reason", "devices", "device_seconds", "speed")}
    return QuoteView.model_validate(plain | moments)


class JobPresenter:
    """Jobs as views: the record, the row it is listed by, and the latest figures and forecasts beside them."""

    def __init__(
        self, journal: Journal, reconciler: Reconciler, forecasts: Forecasts, readings: DeviceReadings
    ) -> None:
        self._journal = journal
        self._reconciler = reconciler
        self._forecasts = forecasts
        self._readings = readings

    def listed(self, row: JobRow) -> JobView:
        fields = _row_fields(row, self._forecasts.expected_at(row.id), self._journal.now())
        return JobView(**fields | self._blocked_fields(row))

    def array(self, row: ArrayRow) -> ArrayView:
        """A job array as one line."""
        expected = [at for job_id in row.active if (at := self._forecasts.expected_at(job_id)) is not None]
        return ArrayView.model_validate(
            {
                "id": row.id, "name": row.name, "tenant": row.tenant, "number": row.number,
                "submitted_at": stamp(row.submitted_at), "jobs": sum(row.states.values()), "states": row.states,
                "devices": row.devices, "expected_at": stamp(max(expected, default=None)),
            }
        )  # fmt: skip

    def detail(self, record: JobRecord) -> JobDetail:
        """Everything about one job: the row, where it stands now, and what it held when."""
        with self._journal.reading():
            row = self._journal.row(record)
        fields = _row_fields(row, self._forecasts.expected_at(row.id), self._journal.now(), record.exit_code)
        if fields["quote"] is not None:
            fields["quote"] = self.qualified(fields["quote"])
        fields |= self._blocked_fields(row)
        return JobDetail(
            **fields, spec=redacted_spec(row.spec),
            deadline=stamp(record.job.deadline) if math.isfinite(record.job.deadline) else None,
            values=[_value_step(step) for step in record.job.value_steps[1:]],
            expected_value=self._expected_value(record, row),
            progress=self._progress(record), generation=record.generation,
            workers=[worker.id for worker in record.workers] if record.grant else [],
            retry_at=stamp(record.retry_at or None), exit_code=record.exit_code,
            diagnosis=None if record.diagnosis is None else DiagnosisView.of(record.diagnosis),
            history=self._history(record), usage=self._usage(record.id), until=self._until(record),
            notices=self._notices(record), resumable=record.job.resumable,
        )  # fmt: skip

    def _blocked_fields(self, row: JobRow) -> dict[str, Any]:
        """Of a job whose devices another run has not left: that it waits, and for whom."""
        blockers = self._reconciler.blocked_by(row.run_id) if row.run_id is not None else None
        if blockers is None or row.ended_at is not None:
            return {}
        names = list(dict.fromkeys(self._named(job_id, row) for job_id in blockers)) or ["its own earlier run"]
        state = JobPhase.PENDING if row.started_at is None else JobPhase.SUSPENDED
        return {"state": state.value, "reason": f"waiting for devices that {' and '.join(names)} is leaving"}

    def _named(self, job_id: str, row: JobRow) -> str:
        """Another job as the owner of this one may know it."""
        other = self._journal.find(job_id)
        if job_id == row.id or other is None:
            return "its own earlier run"
        return job_id if other.job.tenant == row.tenant else f"a job of {other.job.tenant}"

    def _expected_value(self, record: JobRecord, row: JobRow) -> float | None:
        """What share of its value it has by its end or its forecast; nothing for one that ended without a result."""
        at = self._forecasts.expected_at(row.id) if row.ended_at is None else row.ended_at
        if not isinstance(record.job.goal, Deadline) or at is None:
            return None
        return record.job.goal.value_at(at) if row.ended_at is None or row.state == JobPhase.FINISHED else 0.0

    def qualified(self, quote: QuoteView) -> QuoteView:
        """A quote that says so where the backend is a guest, whose starts are for somebody else's queue to decide."""
        return (
            quote
            if getattr(self._reconciler.backend, "promises", True)
            else quote.model_copy(update={"forecast_only": True})
        )

    def _history(self, record: JobRecord) -> list[StintView]:
        """What it held when; nothing is looked up of a job that has never held anything."""
        return [_stint(grant) for grant in self._journal.store.jobs.history(record.id)] if record.stint else []

    def story(self, record: JobRecord) -> StoryView:
        with self._journal.reading() as state:
            story, row = state.story(record), self._journal.row(record)
        if blocked := self._blocked_fields(row):
            story.now = blocked["reason"]
        told = sorted([*story.entries, *self._evaluation_notes(record)], key=lambda note: note.at)
        notes = [NoteView.model_validate({"at": stamp(note.at), "text": note.text}) for note in told]
        return StoryView(job_id=record.id, entries=notes, now=story.now)

    def _evaluation_notes(self, record: JobRecord) -> list[Note]:
        """What evaluations of its checkpoints found; they may end long after the job itself."""
        if not record.has_evaluations:
            return []
        found = self._reconciler.evaluation_history.of(record.id)[-_MOST_EVALUATIONS:]
        return [Note(each.ended_at, text) for each in found if each.ended_at is not None and (text := each.note)]

    def _usage(self, job_id: str) -> UsageView | None:
        found = self._readings.usage_of(job_id)
        if found is None:
            return None
        latest = {name: getattr(found.latest, name) for name in _USED}
        peaks = {name: getattr(found, name) for name in _PEAKS}
        return UsageView.model_validate({"at": stamp(found.at), **latest, **peaks})

    def _notices(self, record: JobRecord) -> list[str]:
        figures = None if record.over else self._reconciler.run_figures.get(record.run_id)
        return [] if figures is None else list(figures.notices.values())

    def _until(self, record: JobRecord) -> StopView | None:
        if record.until is None:
            return None
        with self._journal.reading() as state:
            return stop_view(record, state.rate(record), self._forecasts.expected_at(record.id))

    def _progress(self, record: JobRecord) -> ProgressView:
        gauge = self._reconciler.run_figures.get(record.run_id, RunFigures())
        with self._journal.reading() as state:
            remaining = state.remaining(record, self._journal.now())
        figures = {name: getattr(gauge, name) for name in ("step", "total", "loss", "samples_per_s", "saved_step")}
        if gauge.step is not None and record.grant is None and not record.over and record.total > 0:
            kept = round((1.0 - remaining / record.total) * (gauge.total or record.total))
            figures["step"] = max(min(gauge.step, kept), 0)
        return ProgressView(remaining=remaining, work=record.total, told_at=stamp(gauge.at or None), **figures)


def _row_fields(row: JobRow, expected_at: float | None, now: float, exit_code: int | None = None) -> dict[str, Any]:
    moments = {name: stamp(getattr(row, name)) for name in ("submitted_at", "started_at", "ended_at")}
    expected_at = expected_at if row.ended_at is None else None
    quote = quote_view(_as_of_now(row.quote, row, expected_at, now)) if row.quote is not None else None
    reason = failure_line(row.reason, row.tail, exit_code)
    shown = {"quote": quote, "expected_at": stamp(expected_at), "reason": reason, **_promise_fields(row, now)}
    return {name: getattr(row, name) for name in _ROW} | moments | shown


def _as_of_now(told: Mapping[str, Any], row: JobRow, expected_at: float | None, now: float) -> dict[str, Any]:
    """An answer with the present forecast, without what no longer holds.

    A deferred job that runs is asked again until it ends or is late; a plan that ends before now or before the job
    probably will is void.
    """
    gone: list[str] = []
    if told["verdict"] == Verdict.DEFERRED and row.devices:
        gone.append("answer_by")
    if row.ended_at is None and float(told.get("finish_at") or math.inf) < max(now, expected_at or 0.0):
        gone.append("finish_at")
    return {**told, "expected_at": expected_at, **dict.fromkeys(gone)}


def _promise_fields(row: JobRow, now: float) -> dict[str, Any]:
    told = row.quote or {}
    deadline = float(told.get("deadline", math.inf))
    promise, late_s = promise_state(told.get("verdict"), row.state, row.ended_at, deadline, row.reason, now)
    settled = promise in ("kept", "broken") and math.isfinite(late_s)
    return {"promise": promise, "late_s": late_s if settled else None}


def _value_step(step: ValueStep) -> ValueStepView:
    return ValueStepView.model_validate({"until": stamp(step.at), "value": step.value})


def _stint(grant: GrantRow) -> StintView:
    return StintView.model_validate(
        {
            "run_id": grant.run_id, "generation": grant.generation, "kind": grant.kind, "devices": grant.devices,
            "since": stamp(grant.since), "until": stamp(grant.until),
        }
    )  # fmt: skip


def event_view(line: Line) -> EventView:
    fields = {"seq": line.seq, "at": stamp(line.at), "kind": line.kind, "job_id": line.job_id}
    return EventView.model_validate({**fields, "payload": redacted_payload(line.payload)})


def token_view(token: Principal, secret: str | None = None) -> TokenView:
    fields = {name: getattr(token, name) for name in ("id", "name", "tenant", "origin")}
    moments = {name: stamp(getattr(token, name)) for name in ("created_at", "expires_at", "last_used_at")}
    scope = sorted(scope.value for scope in token.scope)
    return TokenView.model_validate({**fields, **moments, "role": token.role.value, "scope": scope, "secret": secret})


def audit_view(entry: AuditEntry) -> AuditView:
    return AuditView.model_validate({**asdict(entry), "at": stamp(entry.at)})


def evaluation_view(found: PastEvaluation) -> EvaluationView:
    return EvaluationView.model_validate(
        {
            "step": found.step, "job_id": found.job_id, "state": found.state, "results": dict(found.values),
            "submitted_at": stamp(found.submitted_at), "ended_at": stamp(found.ended_at), "reason": found.reason,
            "worse": list(found.worse), "passed_over": list(found.passed_over),
        }
    )  # fmt: skip


def node_views(
    journal: Journal,
    who: Principal,
    unusable: Mapping[DeviceSlot, str],
    leaving: Mapping[str, frozenset[DeviceSlot]],
) -> list[NodeView]:
    """Every node; of the jobs on it, only those that may be seen."""
    with journal.reading() as state:
        cluster = state.scheduler.cluster
        holders = {
            device: record.id
            for record in state.engaged.values()
            if record.grant is not None and who.may_see(record.job.tenant)
            for device in record.grant.devices
        }
        return [
            NodeView(
                name=node.name, kind=node.kind, devices=list(cluster.devices_of(position)),
                state=state.availability(node.name),
                jobs=sorted({holders[device] for device in cluster.devices_of(position) if device in holders}),
                unusable=[
                    *_drain_reasons(state.drained_because.get(node.name)), *_faults(node, unusable),
                    *_retiring(node, state.lost_devices - unusable.keys()), *_leaving(journal, who, node, leaving),
                ],
                **_checked(state.health.get(node.name)),
            )
            for position, node in cluster.present()
        ]  # fmt: skip


def _checked(health: NodeHealth | None) -> dict[str, Any]:
    return {} if health is None else {"checked": health.level.value, "checked_at": stamp(health.at)}


def _drain_reasons(reason: str | None) -> list[str]:
    return [] if reason is None else [f"drained: {reason}"]


def _leaving(
    journal: Journal, who: Principal, node: Node, leaving: Mapping[str, frozenset[DeviceSlot]]
) -> Iterator[str]:
    """Runs that are to end and have not left their devices yet."""
    for job_id, places in leaving.items():
        slots = sorted(place.slot for place in places if place.node == node.name)
        if slots:
            record = journal.find(job_id)
            name = job_id if record is not None and who.may_see(record.job.tenant) else "a job"
            yield f"{name} is leaving (slot {', '.join(map(str, slots))})"


def _retiring(node: Node, places: set[DeviceSlot]) -> list[str]:
    slots = sorted(place.slot for place in places if place.node == node.name)
    return [f"no more jobs on devices that leave (slot {', '.join(map(str, slots))})"] if slots else []


def _faults(node: Node, unusable: Mapping[DeviceSlot, str]) -> list[str]:
    """One sentence for each reason, with the slots it holds for, or without them if it holds for all."""
    slots: dict[str, list[int]] = {}
    for slot in range(node.device_count):
        if why := unusable.get(DeviceSlot(node.name, slot)):
            slots.setdefault(why, []).append(slot)
    return [
        why if len(held) == node.device_count else f"{why} (slot {', '.join(map(str, held))})"
        for why, held in slots.items()
    ]
