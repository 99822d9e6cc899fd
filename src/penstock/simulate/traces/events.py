"""What happens to a cluster and to jobs besides the trace: nodes that join and leave, and what users do to their jobs.

An events file has one event per row, as CSV or as JSON lines. Reading it checks all that the file alone can tell;
:meth:`TraceEvents.bind` checks it against a cluster and the jobs of a trace and gives events of the scheduler.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from penstock.core import (
    Amendment,
    BestEffort,
    Cluster,
    Deadline,
    DeviceLost,
    DeviceRestored,
    Event,
    Goal,
    JobAmended,
    JobCancelled,
    JobPaused,
    JobResumed,
    Node,
    NodeDraining,
    NodeJoined,
    NodeLost,
    TraceError,
    UnitError,
    UnknownNameError,
    WorkerFailed,
    parse_duration,
)
from penstock.simulate.traces.files import Row, Table, read_lines
from penstock.simulate.traces.formats.plain import table_of_jsonl

COLUMNS = (
    "at", "event", "node", "devices", "kind", "until", "device", "job", "deadline", "priority", "at_least", "at_most",
)  # fmt: skip
MOST_EVENTS = 1_000_000
MOST_TEXT = 200
"""Characters of a cell."""
MOST_DEVICES = 10_000
"""Devices of a node that joins."""
_TAKES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "join": (("node",), ("devices", "kind", "until")),
    "lease": (("node", "until"), ("devices", "kind")),
    "drain": (("node",), ("until",)),
    "lost": (("node",), ()),
    "device-lost": (("node", "device"), ()),
    "device-back": (("node", "device"), ()),
    "worker-failed": (("job",), ()),
    "pause": (("job",), ()),
    "resume": (("job",), ("deadline",)),
    "edit": (("job",), ("deadline", "priority", "at_least", "at_most")),
    "cancel": (("job",), ()),
}
"""What each event has to say and what it may say."""
EVENTS = tuple(_TAKES)
_GUIDE = "docs/trace-formats.md describes events files"
_TIME = 'a time such as "5400", "1h30m" or "+2h"'


class SubmittedJob(Protocol):
    """As much of a job as events have to know."""

    @property
    def id(self) -> str: ...

    @property
    def submitted_at(self) -> float: ...


@dataclass(frozen=True, slots=True)
class _Moment:
    """A time: absolute, or so long after something that the file does not know."""

    seconds: float
    is_relative: bool = False

    def after(self, start: float) -> float:
        return start + self.seconds if self.is_relative else self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """One row. ``row`` is kept to say where it stands."""

    row: Row
    event: str
    at: _Moment
    node: str = ""
    devices: int = 0
    kind: str = ""
    until: _Moment | None = None
    device: int = 0
    job: str = ""
    deadline: _Moment | None = None
    priority: int | None = None
    at_least: int | None = None
    at_most: int | None = None

    def refuse(self, column: str, allowed: str, hint: str = "") -> TraceError:
        """An error about a cell of this row."""
        where = f"{self.row.table.source}, line {self.row.line}, column {column!r}"
        return TraceError(f"{where}: {self.row.text(self.row.table.find(column))!r}", allowed, hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvents:
    """The events of a file, in its order."""

    name: str
    events: tuple[TraceEvent, ...]
    digest: str
    """Of the file's content, to tell one file from another of the same name."""

    def __len__(self) -> int:
        return len(self.events)

    def bind(self, cluster: Cluster, jobs: Sequence[SubmittedJob]) -> list[Event]:
        """Events of the scheduler in order of time, for a cluster and the jobs that are submitted to it.

        A node that joined until some time, or is drained by then, is lost at that time unless a later event says
        otherwise. ``+2h`` counts from the submission of the event's job, or else from the first submission.
        """
        submitted = {job.id: job.submitted_at for job in jobs}
        first = min(submitted.values(), default=0.0)
        timed: list[tuple[float, TraceEvent]] = []
        for each in self.events:
            if each.job and each.job not in submitted:
                near = UnknownNameError.of("job", each.job, submitted if len(submitted) <= 1000 else ())
                raise each.refuse("job", "the id of a job of the trace", near.hint)
            at = each.at.after(submitted.get(each.job, first))
            if each.job and at < submitted[each.job]:
                since = submitted[each.job]
                raise each.refuse("at", f"a time from the submission of {each.job!r} at {since:g} s on", 'Try "+10m"')
            timed.append((at, each))
        timed.sort(key=lambda pair: pair[0])
        nodes = _Nodes(cluster)
        bound = list(chain.from_iterable(nodes.before(at) + _bound(each, at, nodes) for at, each in timed))
        return bound + nodes.before(math.inf)


class _Nodes:
    """Which nodes there are while events are bound, and which of them leave by themselves."""

    def __init__(self, cluster: Cluster) -> None:
        self.known = {node.name: node for _, node in cluster.present()}
        self._default = cluster.kinds[0]
        self._ends: dict[str, float] = {}

    def before(self, at: float) -> list[Event]:
        """The nodes that leave by then."""
        due = sorted((end, name) for name, end in self._ends.items() if end <= at and end < math.inf)
        for _, name in due:
            del self._ends[name]
        return [NodeLost(end, name) for end, name in due]

    def leaves(self, name: str, until: float) -> None:
        """A node stays until some time, whatever was said of it before; for ever if that is infinite."""
        self._ends[name] = until

    def named(self, each: TraceEvent) -> Node:
        if each.node not in self.known:
            near = UnknownNameError.of("node", each.node, self.known if len(self.known) <= 1000 else ())
            raise each.refuse("node", "a node of the cluster, or one that has joined by then", near.hint)
        return self.known[each.node]

    def joined(self, each: TraceEvent) -> Node:
        """A node that comes back, or a new one."""
        found = self.known.get(each.node)
        if found is not None:
            what = f"what node {each.node!r} has: {found.device_count} devices of {found.kind}"
            for column, given, is_so in (
                ("devices", each.devices, found.device_count),
                ("kind", each.kind, found.kind),
            ):
                if given and given != is_so:
                    raise each.refuse(column, what, "Leave it out, or give the new node another name")
            return found
        if not each.devices:
            raise each.refuse("devices", f"the number of devices of the new node {each.node!r}")
        node = Node(name=each.node, device_count=each.devices, kind=each.kind or self._default)
        self.known[node.name] = node
        return node


def _bound(each: TraceEvent, at: float, nodes: _Nodes) -> list[Event]:
    """One row as what it is to the scheduler."""
    match each.event:
        case "join" | "lease":
            until = _until(each, at)
            node = nodes.joined(each)
            nodes.leaves(node.name, until)
            return [NodeJoined(at, node, until)]
        case "drain":
            until = at if each.until is None else _until(each, at)
            name = nodes.named(each).name
            nodes.leaves(name, until)
            return [NodeDraining(at, name, until), *(nodes.before(at) if until == at else ())]
        case "lost":
            name = nodes.named(each).name
            nodes.leaves(name, math.inf)
            return [NodeLost(at, name)]
        case "device-lost" | "device-back":
            node = nodes.named(each)
            if each.device >= node.device_count:
                raise each.refuse("device", f"0 to {node.device_count - 1}, a device of node {node.name!r}")
            make = DeviceLost if each.event == "device-lost" else DeviceRestored
            return [make(at, node.name, each.device)]
        case "worker-failed":
            return [WorkerFailed(at, each.job)]
        case "pause":
            return [JobPaused(at, each.job)]
        case "resume":
            return [JobResumed(at, each.job, _goal(each, at))]
        case "edit":
            bounds = {"at_least": each.at_least, "at_most": each.at_most}
            return [JobAmended(at, each.job, Amendment(goal=_goal(each, at), priority=each.priority, **bounds))]
    return [JobCancelled(at, each.job)]


def _until(each: TraceEvent, at: float) -> float:
    if each.until is None:
        return math.inf
    until = each.until.after(at)
    if until < at or (until == at and each.event != "drain"):
        raise each.refuse("until", f"a time after {at:g} s, or never", 'Try "+6h"')
    return until


def _goal(each: TraceEvent, at: float) -> Goal | None:
    if each.deadline is None:
        return None
    due = each.deadline.after(at)
    if due <= at:
        raise each.refuse("deadline", f"a time after {at:g} s, or none", 'Write "+2h" for two hours after the event')
    return Deadline(due) if math.isfinite(due) else BestEffort()


def read_events(path: Path) -> TraceEvents:
    """The events in a file, CSV or JSON lines, compressed or not; every cell that cannot be used is an error."""
    source, hashed = str(path), hashlib.blake2b(digest_size=8)
    lines = _bounded(read_lines(Path(path)), source, hashed)
    first = next(lines)
    whole = chain([first], lines)
    if first.lstrip().startswith("{"):
        table = table_of_jsonl(source, whole, COLUMNS)
    else:
        table = Table.from_csv(source, whole)
        for name in table.header:
            if name not in COLUMNS:
                raise UnknownNameError.of(f"column in {source}:", name, COLUMNS, _GUIDE)
    table.column("at"), table.column("event")
    events = tuple(_event(row) for row in table.rows())
    return TraceEvents(name=Path(path).name, events=events, digest=hashed.hexdigest())


def _bounded(lines: Iterator[str], source: str, hashed: "hashlib.blake2b") -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if number > MOST_EVENTS + 1:
            raise TraceError(f"{source} has more than {MOST_EVENTS:,} events", "as many at most", "Split the study")
        if len(line) > len(COLUMNS) * (MOST_TEXT + 32):
            raise TraceError(f"{source}, line {number}: {len(line):,} characters", "one event per line", _GUIDE)
        hashed.update(line.encode())
        yield line


def _event(row: Row) -> TraceEvent:
    column = {name: position for position, name in enumerate(row.table.header)}
    for name, position in column.items():
        if len(row.cells[position]) > MOST_TEXT:
            raise TraceError(
                f"{row.table.source}, line {row.line}, column {name!r}: {len(row.cells[position])} characters",
                f"at most {MOST_TEXT}",
            )
    word = row.text(column["event"])
    if word not in _TAKES:
        near = UnknownNameError.of("event", word, EVENTS, _GUIDE)
        row.refuse(column["event"], near.allowed, near.hint)
    required, optional = _TAKES[word]
    given = {name for name, position in column.items() if row.text(position)} - {"at", "event"}
    for name in sorted(given.difference(required, optional)):
        row.refuse(column[name], f"nothing: {word} takes {', '.join((*required, *optional))}", "Empty the cell")
    for name in required:
        if name not in given:
            where = f"{row.table.source}, line {row.line}"
            raise TraceError(f"{where}: {word} without {name}", f"{word} with {name}", _GUIDE)
    found = TraceEvent(row=row, event=word, at=_moment(row, column["at"]),
                       **{name: _READ[name](row, column[name]) for name in given})  # fmt: skip
    _check_bounds(found, given)
    return found


def _check_bounds(found: TraceEvent, given: set[str]) -> None:
    if found.event == "edit" and given <= {"job"}:
        raise found.refuse("event", "an edit that changes something: deadline, priority, at_least, at_most")
    if "at_most" in given and "at_least" not in given:
        raise found.refuse("at_most", "an upper bound beside a lower one", "Give at_least too")
    if found.at_most is not None and found.at_least is not None and found.at_most < found.at_least:
        raise found.refuse("at_most", f"at least {found.at_least}, the lower bound")


def _moment(row: Row, column: int) -> _Moment:
    text = row.text(column)
    try:
        return _Moment(parse_duration(text.removeprefix("+")), text.startswith("+"))
    except UnitError:
        row.refuse(column, _TIME)


def _moment_or(word: str, row: Row, column: int) -> _Moment:
    return _Moment(math.inf) if row.text(column) == word else _moment(row, column)


def _whole(row: Row, column: int) -> int:
    value = row.number(column)
    return int(value) if value.is_integer() and abs(value) <= 1e6 else row.refuse(column, "a whole number, at most 1e6")


def _devices(row: Row, column: int) -> int:
    count = row.count(column)
    return count if count <= MOST_DEVICES else row.refuse(column, f"1 to {MOST_DEVICES}")


_READ: Mapping[str, Callable[[Row, int], Any]] = {
    "node": Row.name, "kind": Row.name, "job": Row.name, "devices": _devices,
    "device": lambda row, column: row.count(column, 0), "priority": _whole, "at_least": Row.count, "at_most": Row.count,
    "until": lambda row, column: _moment_or("never", row, column),
    "deadline": lambda row, column: _moment_or("none", row, column),
}  # fmt: skip
