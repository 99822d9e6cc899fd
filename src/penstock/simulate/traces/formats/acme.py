"""The traces of Acme (Hu et al., NSDI 2024), two clusters on which large models are developed: ``trace_kalos.csv``.

The user is the tenant, and what kind of work a job was (pretraining, evaluation, debugging, …) is its type. Jobs
without devices are left out. Time zero is the first job kept.
"""

from collections import Counter
from dataclasses import dataclass

from penstock.simulate.traces.files import Row, Table
from penstock.simulate.traces.formats.instants import from_zero, instant
from penstock.simulate.traces.formats.used_rows import used_rows
from penstock.simulate.traces.records import Ending, Trace, TraceJob

NAME = "acme"
REQUIRED = (
    ("job_id",), ("user",), ("gpu_num",), ("type",), ("state",), ("submit_time",), ("duration",), ("queue",),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Columns:
    id: int
    tenant: int
    devices: int
    type: int
    state: int
    submitted: int
    duration: int
    waited: int


def read(table: Table) -> Trace:
    at = _Columns(*(table.column(*names) for names in REQUIRED))
    skipped: Counter[str] = Counter()
    jobs = [_job(row, at) for row in used_rows(table, at.devices, skipped, at.duration)]
    return Trace.assemble(table.source, NAME, from_zero(jobs), skipped)


def _job(row: Row, at: _Columns) -> TraceJob:
    return TraceJob(
        id=row.new_id(at.id),
        submitted_at=instant(row, at.submitted),
        devices=row.count(at.devices),
        duration_s=row.positive(at.duration),
        tenant=row.text(at.tenant) or "default",
        rigid=True,
        waited_s=max(0.0, row.number(at.waited)) if row.text(at.waited) else None,
        ending=Ending.of(row.text(at.state)),
        type=row.text(at.type),
    )
