"""The traces of Helios (Hu et al., SC 2021) as Slurm logged them: ``cluster_log.csv`` of one cluster.

The virtual cluster is the tenant; a job that was cancelled or failed ran for as long as it did and counts like any
other. How it ended, and for how long it waited, is kept. There are no models and no deadlines. Time zero is the first
job kept.
"""

from collections import Counter
from dataclasses import dataclass, replace

from penstock.simulate.traces.files import Row, Table
from penstock.simulate.traces.formats.instants import from_zero, instant
from penstock.simulate.traces.formats.used_rows import used_rows
from penstock.simulate.traces.records import Ending, Trace, TraceJob

NAME = "helios"
REQUIRED = (("job_id",), ("vc",), ("gpu_num",), ("node_num",), ("state",), ("submit_time",), ("duration",))


@dataclass(frozen=True, slots=True)
class _Columns:
    id: int
    tenant: int
    devices: int
    nodes: int
    state: int
    submitted: int
    duration: int
    waited: int | None = None


def read(table: Table) -> Trace:
    required = _Columns(*(table.column(*names) for names in REQUIRED))
    at = replace(required, waited=table.find("queue"))
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
        waited_s=row.time(at.waited) if row.text(at.waited) and at.waited is not None else None,
        ending=Ending.of(row.text(at.state)),
    )
