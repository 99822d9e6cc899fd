"""Our own trace format, as CSV and as JSON lines, read and written.

Both carry the same columns and are read by the same code: a JSON object becomes a row of cells first. What is written
here is read back as the same records, except for ``kinds``, which the format does not carry, and for how another
cluster treated the jobs, which is read and not written.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO, TypeVar

from penstock.core import TraceError, UnitError, UnknownNameError, parse_duration, percent_text
from penstock.simulate.traces.files import Row, Table, replacing
from penstock.simulate.traces.records import Ending, Trace, TraceJob

NAME = "plain"
REQUIRED = (("id",), ("submitted",), ("duration", "iterations"))
COLUMNS = (
    "id",
    "submitted",
    "devices",
    "duration",
    "iterations",
    "model",
    "batch",
    "deadline",
    "tenant",
    "marks",
    "then",
)
OBSERVED = ("waited", "ending", "type")
"""Read, and not written: how another cluster treated the job."""
_SELDOM = 2
"""The last columns, which are only written for traces whose first job has something in one of them."""
_READ = (*COLUMNS, *OBSERVED)
MARKS = ("rigid", "soft")
"""What the column of marks may say, separated by blanks."""

T = TypeVar("T")

_THEN = 'Such as "7200=50% 9000=20%", in seconds since the start of the trace'

_SECONDS = 'zero or more seconds, or a duration such as "90s", "6h" or "1h30m"'


@dataclass(frozen=True, slots=True)
class _Columns:
    id: int
    submitted: int
    devices: int | None
    duration: int | None
    iterations: int | None
    model: int | None
    batch: int | None
    deadline: int | None
    tenant: int | None
    marks: int | None
    then: int | None
    waited: int | None
    ending: int | None
    type: int | None


def read(table: Table) -> Trace:
    for name in table.header:
        _known(name, table.source)
    at = _Columns(table.column("id"), table.column("submitted"), *map(table.find, (*COLUMNS[2:], *OBSERVED)))
    return Trace.assemble(table.source, NAME, (_job(row, at) for row in table.rows()))


def table_of_jsonl(source: str, lines: Iterable[str], columns: Sequence[str] = _READ) -> Table:
    """JSON lines as a table with every column; a key that is missing or null is an empty cell."""
    return Table(source, tuple(columns), _rows_of_jsonl(source, lines, columns))


def write_trace(path: Path, jobs: Iterable[TraceJob], *, overwrite: bool = False, source: Path | None = None) -> int:
    """Write jobs to a ``.csv`` or ``.jsonl`` file, either with ``.gz``, all of them or nothing; returns how many.

    An existing file is only replaced when ``overwrite`` allows it, and never if it is ``source``, the trace being read.
    """
    write = _writer_for(path)
    with replacing(path, overwrite=overwrite, source=source) as stream:
        return write(jobs, stream)


def write_trace_csv(jobs: Iterable[TraceJob], stream: TextIO) -> int:
    writer = csv.writer(stream, lineterminator="\n")
    quoting = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_ALL)
    count = 0
    for job in jobs:
        if not count:
            width = _width(job)
            writer.writerow(COLUMNS[:width])
        if _width(job) > width:
            seldom = next(cell for cell in _cells(job)[width:] if cell)
            raise TraceError(f"job {job.id!r} is {seldom} and the first job is not", "JSON lines for such a trace")
        # Left to itself, the csv module writes a lone carriage return without quotes and then refuses to read it.
        bare_return = "\r" in job.id or "\r" in job.tenant or "\r" in job.model
        (quoting if bare_return else writer).writerow(_cells(job)[:width])
        count += 1
    if not count:
        writer.writerow(COLUMNS[:-_SELDOM])
    return count


def write_trace_jsonl(jobs: Iterable[TraceJob], stream: TextIO) -> int:
    count = 0
    for job in jobs:
        cells = zip(COLUMNS, _cells(job), strict=True)
        given = {name: cell for name, cell in cells if cell not in ("", None)}
        stream.write(json.dumps(given, ensure_ascii=False) + "\n")
        count += 1
    return count


def _writer_for(path: Path) -> Callable[[Iterable[TraceJob], TextIO], int]:
    name = path.name.removesuffix(".gz")
    if name.endswith(".csv"):
        return write_trace_csv
    if name.endswith(".jsonl"):
        return write_trace_jsonl
    raise TraceError(f"cannot tell the format of {path}", "a name ending in .csv, .jsonl, .csv.gz or .jsonl.gz")


def _cells(job: TraceJob) -> tuple[str | float | None, ...]:
    return (
        job.id, _short(job.submitted_at), job.devices, _short(job.duration_s), _short(job.iterations),
        job.model, job.batch or None, _short(job.deadline), job.tenant, _marks(job),
        " ".join(f"{_short(at)}={percent_text(value)}" for at, value in job.then),
    )  # fmt: skip


def _width(job: TraceJob) -> int:
    """The columns it takes to write a job."""
    return len(COLUMNS) if any(_cells(job)[-_SELDOM:]) else len(COLUMNS) - _SELDOM


def _marks(job: TraceJob) -> str:
    return " ".join(mark for mark in MARKS if getattr(job, mark))


def _short(value: float | None) -> float | None:
    """5010 rather than 5010.0; larger whole numbers keep their exponent."""
    return int(value) if value is not None and value % 1 == 0 and abs(value) < 1e15 else value


def _job(row: Row, at: _Columns) -> TraceJob:
    submitted, marks = _seconds(row, at.submitted), row.text(at.marks).split()
    if at.marks is not None and not set(marks) <= set(MARKS):
        row.refuse(at.marks, f"nothing, or any of {', '.join(MARKS)}")
    job = TraceJob(
        id=row.new_id(at.id),
        submitted_at=submitted,
        devices=_if_given(row, at.devices, Row.count) or 1,
        duration_s=_if_given(row, at.duration, _run_time),
        iterations=_if_given(row, at.iterations, Row.positive),
        model=row.text(at.model),
        batch=_if_given(row, at.batch, Row.count) or 0,
        deadline=_if_given(row, at.deadline, lambda row, column: _deadline(row, column, submitted)),
        tenant=row.text(at.tenant) or "default",
        rigid="rigid" in marks,
        soft="soft" in marks,
        then=_later_values(row, at.then) if at.then is not None else (),
        waited_s=_if_given(row, at.waited, _seconds),
        ending=_if_given(row, at.ending, _ending) or Ending.UNKNOWN,
        type=row.text(at.type),
    )
    _check_whole(job, row, at)
    return job


def _check_whole(job: TraceJob, row: Row, at: _Columns) -> None:
    if job.duration_s is None and job.iterations is None:
        row.refuse(at.id, "a job with a duration or iterations", "Fill in one of the two columns")
    if job.batch and not job.model and at.batch is not None:
        row.refuse(at.batch, "a batch only together with a model", "Fill in the model or leave out the batch")
    if job.then and at.then is not None:
        if not job.soft or job.deadline is None:
            row.refuse(at.then, "later values only for a soft job with a deadline", "Write soft into the marks")
        steps = [(job.deadline, 1.0), *job.then]
        if any(not (before[0] < later[0] and before[1] > later[1] > 0) for before, later in pairwise(steps)):
            row.refuse(at.then, "later deadlines of falling value, after the deadline itself", _THEN)


def _later_values(row: Row, column: int) -> tuple[tuple[float, float], ...]:
    parts = [part.partition("=") for part in row.text(column).split()]
    if not all(equals and share.endswith("%") for _, equals, share in parts):
        row.refuse(column, "TIME=PERCENTAGE pairs, separated by blanks", _THEN)
    return tuple((_seconds(row, column, at), _share(row, column, share)) for at, _, share in parts)


def _share(row: Row, column: int, text: str) -> float:
    try:
        return float(text.removesuffix("%")) / 100
    except ValueError:
        row.refuse(column, "a percentage", _THEN)


def _if_given(row: Row, column: int | None, read: Callable[[Row, int], T]) -> T | None:
    return read(row, column) if column is not None and row.text(column) else None


def _seconds(row: Row, column: int, text: str | None = None) -> float:
    """Zero or more seconds in a cell, or in the part of it given as ``text``."""
    try:
        return parse_duration(row.cells[column] if text is None else text)
    except UnitError:
        row.refuse(column, _SECONDS)


def _ending(row: Row, column: int) -> Ending:
    found = Ending.of(row.text(column))
    return found if found is not Ending.UNKNOWN else row.refuse(column, f"one of {', '.join(Ending)}")


def _run_time(row: Row, column: int) -> float:
    return _seconds(row, column) or row.refuse(column, "more than 0 seconds")


def _deadline(row: Row, column: int, submitted: float) -> float:
    text = row.text(column)
    deadline = submitted + _seconds(row, column, text[1:]) if text[0] == "+" else _seconds(row, column, text)
    if deadline <= submitted:
        row.refuse(
            column,
            f"a time after the submission at {submitted:g} s",
            'Write "+2h" for two hours after submission, or nothing for best effort',
        )
    return deadline


def _known(name: str, where: str, columns: Sequence[str] = _READ) -> None:
    if name not in columns:
        raise UnknownNameError.of(f"column in {where}:", name, columns, "Remove it or rename it")


def _rows_of_jsonl(source: str, lines: Iterable[str], columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            values = _object(line, where := f"{source}, line {number}", columns)
            yield number, [_cell(name, values.get(name), where) for name in columns]


def _object(line: str, where: str, columns: Sequence[str]) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as problem:
        raise TraceError(f"{where}: not JSON ({problem})", "one JSON object per line") from None
    if not isinstance(values, dict):
        raise TraceError(f"{where}: {line.strip()[:40]!r}", "one JSON object per line")
    for name in values:
        _known(name, where, columns)
    return values


def _cell(name: str, value: object, where: str) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    raise TraceError(f"{where}, column {name!r}: {value!r}", "a string, a number or null")
