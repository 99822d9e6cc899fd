"""The Alibaba GPU trace of 2023 (Weng et al., ATC 2023): pods with GPUs, many of them a fraction of one.

A pod that asks for part of a GPU becomes a job on one whole device, since a grant is never less than a device: traces
with much sharing therefore weigh more here than they did in production. A pod's run time is what lies between being
scheduled and being deleted; its quality of service is the tenant; the GPU models it allows stay in the record.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock.simulate.traces.files import Row, Table
from penstock.simulate.traces.records import Ending, Trace, TraceJob

NAME = "alibaba"
REQUIRED = (("name",), ("num_gpu",), ("creation_time",), ("deletion_time",), ("scheduled_time",))


@dataclass(frozen=True, slots=True)
class _Columns:
    id: int
    devices: int
    created: int
    deleted: int
    scheduled: int
    kinds: int | None = None
    tenant: int | None = None
    phase: int | None = None


def read(table: Table) -> Trace:
    required = _Columns(*(table.column(*names) for names in REQUIRED))
    at = replace(required, kinds=table.find("gpu_spec"), tenant=table.find("qos"), phase=table.find("pod_phase"))
    skipped: Counter[str] = Counter()
    return Trace.assemble(table.source, NAME, _jobs(table, at, skipped), skipped)


def _jobs(table: Table, at: _Columns, skipped: Counter[str]) -> Iterator[TraceJob]:
    for row in table.rows():
        reason = _why_not(row, at)
        if reason:
            skipped[reason] += 1
        else:
            yield _job(row, at)


def _why_not(row: Row, at: _Columns) -> str:
    if row.count(at.devices, at_least=0) == 0:
        return "no GPU"
    if not (row.text(at.scheduled) and row.text(at.deleted)):
        return "no start or end"
    return "" if row.time(at.deleted) > row.time(at.scheduled) else "no run time"


def _job(row: Row, at: _Columns) -> TraceJob:
    return TraceJob(
        id=row.new_id(at.id),
        submitted_at=row.time(at.created),
        devices=row.count(at.devices),
        duration_s=row.time(at.deleted) - row.time(at.scheduled),
        tenant=row.text(at.tenant) or "default",
        kinds=tuple(kind for kind in row.text(at.kinds).split("|") if kind),
        waited_s=max(0.0, row.time(at.scheduled) - row.time(at.created)),
        ending=Ending.of(row.text(at.phase)),
    )
