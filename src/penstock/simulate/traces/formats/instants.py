"""Submission times that are written as dates."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from penstock.core import UnitError, parse_instant
from penstock.simulate.traces.files import Row
from penstock.simulate.traces.records import TraceJob


def instant(row: Row, column: int) -> float:
    """Seconds since the epoch."""
    try:
        return parse_instant(row.cells[column])
    except UnitError as problem:
        row.refuse(column, problem.allowed, problem.hint)


def from_zero(jobs: Sequence[TraceJob]) -> Iterator[TraceJob]:
    """The same jobs with the first submission at zero."""
    start = min((job.submitted_at for job in jobs), default=0.0)
    return (replace(job, submitted_at=job.submitted_at - start) for job in jobs)
