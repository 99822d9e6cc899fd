"""The workloads of Sia (Jayaram Subramanya et al., SOSP 2023), in the form that Pollux introduced.

A row names an application, the replicas and the global batch size that a person would have chosen. How much work that
is and how fast it goes is in the profiles published with them, so a workload needs those (``--profiles``). The batch
size stays what the row says; Sia and Pollux themselves change it as a job runs.
"""

from dataclasses import dataclass

from penstock.simulate.traces.files import Row, Table
from penstock.simulate.traces.records import Trace, TraceJob

NAME = "sia"
REQUIRED = (("name",), ("time",), ("application",), ("num_replicas",), ("batch_size",))


@dataclass(frozen=True, slots=True)
class _Columns:
    id: int
    submitted: int
    model: int
    devices: int
    batch: int


def read(table: Table) -> Trace:
    at = _Columns(*(table.column(*names) for names in REQUIRED))
    return Trace.assemble(table.source, NAME, (_job(row, at) for row in table.rows()))


def _job(row: Row, at: _Columns) -> TraceJob:
    return TraceJob(
        id=row.new_id(at.id),
        submitted_at=row.time(at.submitted),
        devices=row.count(at.devices),
        model=row.name(at.model),
        batch=row.count(at.batch),
    )
