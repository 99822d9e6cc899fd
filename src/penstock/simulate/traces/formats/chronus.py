"""The traces of Chronus (Gao et al., SoCC 2021): gangs of a fixed size with strict, soft or no deadlines, in minutes.

A soft job lists several deadlines of falling value; its first one is kept, and being late is not worthless. The columns
``iterations`` and ``interval`` are used by nobody, the public simulator included. Jobs without a GPU are left out, as
there.
"""

from collections import Counter
from dataclasses import dataclass

from penstock.simulate.traces.files import Row, Table
from penstock.simulate.traces.formats.used_rows import used_rows
from penstock.simulate.traces.records import Trace, TraceJob

NAME = "chronus"
REQUIRED = (
    ("job_id",), ("user",), ("num_gpu",), ("submit_time",), ("model_name",), ("duration",), ("expect_time_list",),
    ("best_effort",), ("job_type",),
)  # fmt: skip

_MINUTE = 60.0
_TYPES = ("strict", "soft", "best")


@dataclass(frozen=True, slots=True)
class _Columns:
    id: int
    tenant: int
    devices: int
    submitted: int
    model: int
    duration: int
    deadlines: int
    best_effort: int
    type: int


def read(table: Table) -> Trace:
    at = _Columns(*(table.column(*names) for names in REQUIRED))
    skipped: Counter[str] = Counter()
    jobs = (_job(row, at) for row in used_rows(table, at.devices, skipped))
    return Trace.assemble(table.source, NAME, jobs, skipped)


def _job(row: Row, at: _Columns) -> TraceJob:
    job_type = row.text(at.type)
    if job_type not in _TYPES:
        row.refuse(at.type, ", ".join(_TYPES))
    best_effort = row.count(at.best_effort, at_least=0) == 1 or job_type == "best"
    submitted = _MINUTE * row.time(at.submitted)
    return TraceJob(
        id=row.new_id(at.id),
        submitted_at=submitted,
        devices=row.count(at.devices),
        duration_s=_MINUTE * row.positive(at.duration),
        model=row.name(at.model),
        deadline=None if best_effort else submitted + _MINUTE * _first_deadline(row, at.deadlines),
        tenant=row.text(at.tenant) or "default",
        rigid=True,
        soft=job_type == "soft" and not best_effort,
    )


def _first_deadline(row: Row, column: int) -> float:
    try:
        steps = [float(step) for step in row.text(column).split("-")]
    except ValueError:
        row.refuse(column, "minutes after submission, several joined by -", 'Such as "282" or "159-189-229"')
    return steps[0] if steps[0] > 0 else row.refuse(column, "minutes above 0")
