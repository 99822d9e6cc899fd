"""The ElasticFlow traces (Gu et al., ASPLOS 2023): jobs with a model, a batch size and an absolute deadline.

The released traces and the simulator published with the paper name three columns differently; both spellings are read.
Times are kept as they are in the file: several traces start millions of seconds in.
"""

from dataclasses import dataclass, replace

from penstock.simulate.traces.files import Row, Table
from penstock.simulate.traces.records import Trace, TraceJob

NAME = "elasticflow"
REQUIRED = (
    ("job_id",),
    ("submission_time", "submit_time"),
    ("num_iteration", "iteration"),
    ("model_name",),
    ("deadline", "ddl"),
    ("batch_size",),
    ("num_gpu",),
    ("duration",),
)


@dataclass(frozen=True, slots=True)
class _Columns:
    id: int
    submitted: int
    iterations: int
    model: int
    deadline: int
    batch: int
    devices: int
    duration: int
    best_effort: int | None = None


def read(table: Table) -> Trace:
    required = _Columns(*(table.column(*names) for names in REQUIRED))
    at = replace(required, best_effort=table.find("best_effort"))
    return Trace.assemble(table.source, NAME, (_job(row, at) for row in table.rows()))


def _job(row: Row, at: _Columns) -> TraceJob:
    submitted = row.time(at.submitted)
    return TraceJob(
        id=row.new_id(at.id),
        submitted_at=submitted,
        devices=row.count(at.devices),
        duration_s=row.positive(at.duration),
        iterations=row.positive(at.iterations),
        model=row.name(at.model),
        batch=row.count(at.batch),
        deadline=None if _is_best_effort(row, at.best_effort) else _deadline(row, at.deadline, submitted),
    )


def _is_best_effort(row: Row, column: int | None) -> bool:
    if column is None:
        return False
    flag = row.text(column)
    return flag == "1" if flag in ("0", "1") else row.refuse(column, "0 or 1")


def _deadline(row: Row, column: int, submitted: float) -> float:
    deadline = row.number(column)
    if deadline <= submitted:
        row.refuse(column, f"a time after the submission at {submitted:g} s", "Deadlines are absolute seconds")
    return deadline
