"""The traces of Astraea (Ye et al., TPDS 2021): gangs of a fixed size that belong to users, in seconds.

Astraea is about shares, not about deadlines: ``expect_time``, the seconds after submission by which a user hopes for
the result, becomes a soft deadline. ``iterations`` and ``interval`` are not used: the run time is the duration.
"""

from collections import Counter
from dataclasses import dataclass

from penstock.simulate.traces.files import Row, Table
from penstock.simulate.traces.formats.used_rows import used_rows
from penstock.simulate.traces.records import Trace, TraceJob

NAME = "astraea"
REQUIRED = (
    ("job_id",), ("user",), ("num_gpu",), ("submit_time",), ("model_name",), ("duration",), ("interval",),
    ("expect_time",),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Columns:
    id: int
    tenant: int
    devices: int
    submitted: int
    model: int
    duration: int
    interval: int
    expected: int


def read(table: Table) -> Trace:
    at = _Columns(*(table.column(*names) for names in REQUIRED))
    skipped: Counter[str] = Counter()
    jobs = (_job(row, at) for row in used_rows(table, at.devices, skipped))
    return Trace.assemble(table.source, NAME, jobs, skipped)


def _job(row: Row, at: _Columns) -> TraceJob:
    submitted = row.time(at.submitted)
    return TraceJob(
        id=row.new_id(at.id),
        submitted_at=submitted,
        devices=row.count(at.devices),
        duration_s=row.positive(at.duration),
        model=row.name(at.model),
        deadline=submitted + row.positive(at.expected),
        tenant=row.text(at.tenant) or "default",
        rigid=True,
        soft=True,
    )
