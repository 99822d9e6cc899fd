"""The traces of Gavel (Narayanan et al., OSDI 2020): a model with its batch size, steps, a fixed number of workers.

There is no header; cells are separated by tabs. Two layouts are public: ten columns (the physical-cluster traces) and
seven (those derived from Philly). A step at another number of workers is another amount of work, since every worker has
its own batch, so jobs keep the number they ask for. How long they take on which kind is in Gavel's throughput tables.
"""

import re
from collections.abc import Iterable, Iterator

from penstock.core import TraceError
from penstock.simulate.traces.files import Table
from penstock.simulate.traces.records import Trace, TraceJob

NAME = "gavel"
TEN = (
    "job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir", "total_steps", "scale_factor",
    "priority_weight", "SLO", "arrival_time",
)  # fmt: skip
SEVEN = ("job_type", "command", "num_steps_arg", "needs_data_dir", "total_steps", "arrival_time", "scale_factor")
UNSAID_BATCH = 1
"""The batch size of job types that name none (A3C, CycleGAN)."""

_TYPE = re.compile(r"(?P<model>.+?)(?: \(batch size (?P<batch>\d+)\))?")


def is_like(line: str) -> bool:
    return len(line.split("\t")) in (len(TEN), len(SEVEN))


def table(source: str, lines: Iterable[str]) -> Table:
    numbered = [(number, line.rstrip("\r\n").split("\t")) for number, line in enumerate(lines, 1) if line.strip()]
    header = TEN if len(numbered[0][1]) == len(TEN) else SEVEN
    for number, cells in numbered:
        if len(cells) != len(header):
            raise TraceError(
                f"{source}, line {number}: {len(cells)} cells", f"{len(header)} cells separated by tabs, as in line 1"
            )
    return Table(source, header, numbered)


def read(table: Table) -> Trace:
    return Trace.assemble(table.source, NAME, _jobs(table))


def _jobs(table: Table) -> Iterator[TraceJob]:
    kind, steps, workers, arrival = map(table.column, ("job_type", "total_steps", "scale_factor", "arrival_time"))
    slo = table.find("SLO")
    for number, row in enumerate(table.rows()):
        if slo is not None and row.number(slo) >= 0:
            row.refuse(slo, "-1, no SLO", "Write the trace in the plain format, with deadlines")
        model, batch = job_type(row.name(kind))
        yield TraceJob(
            id=f"gavel-{number}",
            submitted_at=row.time(arrival),
            devices=row.count(workers),
            iterations=row.positive(steps),
            model=model,
            batch=batch,
            rigid=True,
        )


def job_type(text: str) -> tuple[str, int]:
    """
    >>> job_type("ResNet-18 (batch size 128)"), job_type("A3C")
    (('ResNet-18', 128), ('A3C', 1))
    """
    found = _TYPE.fullmatch(text.strip())
    return (found["model"], int(found["batch"] or UNSAID_BATCH)) if found else (text, UNSAID_BATCH)
