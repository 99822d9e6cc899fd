"""Logs with a row for each job, as schedulers of GPU clusters write them: whose, how many devices, when, how it ended.

A job that was cancelled or failed ran for as long as it did and counts like any other. There are no models and no
deadlines. Jobs without devices or a run time are left out and counted; time zero is the first job kept.
"""

from collections import Counter
from dataclasses import dataclass

from penstock.simulate.traces.files import Row, Table
from penstock.simulate.traces.formats.instants import from_zero, instant
from penstock.simulate.traces.formats.used_rows import used_rows
from penstock.simulate.traces.records import Ending, Trace, TraceJob

COLUMNS = (("job_id",), ("gpu_num",), ("state",), ("submit_time",), ("duration",))
"""What every such log has."""


@dataclass(frozen=True, slots=True)
class _Columns:
    id: int
    devices: int
    state: int
    submitted: int
    duration: int
    tenant: int
    waited: int | None
    type: int | None


def read_log(table: Table, name: str, tenant: str) -> Trace:
    """A trace of the jobs in a log, accounted to what stands in the column ``tenant``."""
    required = (table.column(*names) for names in (*COLUMNS, (tenant,)))
    at = _Columns(*required, *map(table.find, ("queue", "type")))
    skipped: Counter[str] = Counter()
    jobs = [_job(row, at) for row in used_rows(table, at.devices, skipped, at.duration)]
    return Trace.assemble(table.source, name, from_zero(jobs), skipped)


def _job(row: Row, at: _Columns) -> TraceJob:
    return TraceJob(
        id=row.new_id(at.id),
        submitted_at=instant(row, at.submitted),
        devices=row.count(at.devices),
        duration_s=row.positive(at.duration),
        tenant=row.text(at.tenant) or "default",
        rigid=True,
        waited_s=max(0.0, row.number(at.waited)) if at.waited is not None and row.text(at.waited) else None,
        ending=Ending.of(row.text(at.state)),
        type=row.text(at.type),
    )
