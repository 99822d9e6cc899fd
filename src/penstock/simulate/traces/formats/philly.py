"""The Philly trace (Jeon et al., ATC 2019) in its flattened form: when, how long, on how many GPUs, whose.

There is no id, no model and no deadline. Jobs are numbered by their row in the file, so that an id survives a change
of what is skipped; the virtual cluster is the tenant; time zero is the first job kept.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.simulate.traces.files import Table
from penstock.simulate.traces.formats.instants import from_zero, instant
from penstock.simulate.traces.records import Trace, TraceJob

NAME = "philly"
REQUIRED = (("timestamp",), ("duration",), ("num_gpus",), ("cluster",))


@dataclass(frozen=True, slots=True)
class _Columns:
    submitted: int
    duration: int
    devices: int
    tenant: int


def read(table: Table) -> Trace:
    at = _Columns(*(table.column(*names) for names in REQUIRED))
    skipped: Counter[str] = Counter()
    return Trace.assemble(table.source, NAME, from_zero(list(_jobs(table, at, skipped))), skipped)


def _jobs(table: Table, at: _Columns, skipped: Counter[str]) -> Iterator[TraceJob]:
    for number, row in enumerate(table.rows()):
        devices, duration = row.count(at.devices, at_least=0), row.number(at.duration)
        if devices == 0:
            skipped["no GPU"] += 1
        elif duration <= 0:
            skipped["no run time"] += 1
        else:
            yield TraceJob(
                id=f"philly-{number}",
                submitted_at=instant(row, at.submitted),
                devices=devices,
                duration_s=duration,
                tenant=row.text(at.tenant) or "default",
            )
