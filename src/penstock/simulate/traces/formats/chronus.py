"""The traces of Chronus (Gao et al., SoCC 2021): gangs of a fixed size with strict, soft or no deadlines, in minutes.

A soft job lists several deadlines of falling value, of which 10 is the most there is. The columns
``iterations`` and ``interval`` are used by nobody, the public simulator included. Jobs without a GPU are left out, as
there.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from penstock.simulate.traces.files import Row, Table
from penstock.simulate.traces.formats.used_rows import used_rows
from penstock.simulate.traces.records import Trace, TraceJob

NAME = "chronus"
REQUIRED = (
    ("job_id",), ("user",), ("num_gpu",), ("submit_time",), ("model_name",), ("duration",), ("expect_time_list",),
    ("best_effort",), ("job_type",), ("expect_value_list",),
)  # fmt: skip

_MINUTE = 60.0
_FULL_VALUE = 10.0
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
    values: int


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
    deadlines = [] if best_effort else [submitted + _MINUTE * minutes for minutes in _minutes(row, at.deadlines)]
    is_soft = job_type == "soft" and not best_effort
    return TraceJob(
        id=row.new_id(at.id),
        submitted_at=submitted,
        devices=row.count(at.devices),
        duration_s=_MINUTE * row.positive(at.duration),
        model=row.name(at.model),
        deadline=deadlines[0] if deadlines else None,
        tenant=row.text(at.tenant) or "default",
        rigid=True,
        soft=is_soft,
        then=_later_values(row, at.values, deadlines) if is_soft else (),
    )


def _minutes(row: Row, column: int) -> list[float]:
    steps = _numbers(row, column, "minutes after submission, several joined by -", 'Such as "282" or "159-189-229"')
    if steps[0] <= 0 or any(later <= before for before, later in pairwise(steps)):
        row.refuse(column, "minutes above 0, each after the one before")
    return steps


def _later_values(row: Row, column: int, deadlines: list[float]) -> tuple[tuple[float, float], ...]:
    values = [value / _FULL_VALUE for value in _numbers(row, column, "values joined by -", 'Such as "10-8-5-2"')]
    falling = all(before > later > 0 for before, later in pairwise(values))
    if len(values) != len(deadlines) or values[0] != 1.0 or not falling:
        row.refuse(column, f"one value for each of {len(deadlines)} deadlines, falling from {_FULL_VALUE:g}")
    return tuple(zip(deadlines[1:], values[1:], strict=True))


def _numbers(row: Row, column: int, allowed: str, hint: str) -> list[float]:
    try:
        return [float(step) for step in row.text(column).split("-")]
    except ValueError:
        row.refuse(column, allowed, hint)
