"""The Standard Workload Format of the Parallel Workloads Archive (Feitelson et al.): eighteen numbers per job.

Comments begin with a semicolon; -1 stands for what is not known. A processor becomes a device, the user the tenant, and
the job keeps the number of processors it asked for (where that is not known, the number it was given). The time that
the user asked for is not used.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from penstock.core import TraceError
from penstock.simulate.traces.files import Row, Table
from penstock.simulate.traces.records import Ending, Trace, TraceJob

NAME = "swf"
COLUMNS = (
    "job_number", "submit_time", "wait_time", "run_time", "allocated_processors", "average_cpu_time", "used_memory",
    "requested_processors", "requested_time", "requested_memory", "status", "user_id", "group_id", "executable",
    "queue", "partition", "preceding_job", "think_time",
)  # fmt: skip
_COMMENT = ";"
_ENDINGS = {0: Ending.FAILED, 1: Ending.COMPLETED, 5: Ending.CANCELLED}
"""Of whole jobs; 2 to 4 are parts of one that was checkpointed."""


def is_like(line: str) -> bool:
    return line.lstrip().startswith(_COMMENT) or (
        len(cells := line.split()) == len(COLUMNS) and all(map(_is_number, cells))
    )


def table(source: str, lines: Iterable[str]) -> Table:
    return Table(source, COLUMNS, _rows(source, lines))


def read(table: Table) -> Trace:
    skipped: Counter[str] = Counter()
    return Trace.assemble(table.source, NAME, _jobs(table, skipped), skipped)


def _rows(source: str, lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, 1):
        text = line.partition(_COMMENT)[0]
        if not text.strip():
            continue
        cells = text.split()
        if len(cells) != len(COLUMNS):
            raise TraceError(f"{source}, line {number}: {len(cells)} fields", f"{len(COLUMNS)} numbers, or a comment")
        yield number, cells


def _jobs(table: Table, skipped: Counter[str]) -> Iterator[TraceJob]:
    at = {name: position for position, name in enumerate(COLUMNS)}
    for row in table.rows():
        devices = _processors(row, at["requested_processors"]) or _processors(row, at["allocated_processors"])
        run_time = row.number(at["run_time"])
        if devices == 0:
            skipped["no processors"] += 1
        elif run_time <= 0:
            skipped["no run time"] += 1
        else:
            yield TraceJob(
                id=f"swf-{row.new_id(at['job_number'])}",
                submitted_at=row.time(at["submit_time"]),
                devices=devices,
                duration_s=run_time,
                tenant=_tenant(row.count(at["user_id"], at_least=-1)),
                rigid=True,
                waited_s=waited if (waited := row.number(at["wait_time"])) >= 0 else None,
                ending=_ENDINGS.get(int(row.number(at["status"])), Ending.UNKNOWN),
            )


def _tenant(user: int) -> str:
    return f"user-{user}" if user >= 0 else "default"


def _processors(row: Row, column: int) -> int:
    return max(row.count(column, at_least=-1), 0)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
