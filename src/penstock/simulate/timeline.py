"""Who held which devices when, as rows of bars: what every drawing of a cluster over time is made of.

The page of a single simulation, the report of a comparison and the dashboard draw the same bars on the same axes; they
differ in how they paint them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from penstock.core import Cluster, Grant

MOST_NAMED_ROWS = 16


@dataclass(frozen=True, slots=True)
class Bar:
    """One job on a run of neighbouring devices for a while."""

    job_id: str
    first_device: int
    count: int
    start: float
    end: float

    @property
    def last_device(self) -> int:
        return self.first_device + self.count - 1

    @property
    def device_seconds(self) -> float:
        return self.count * (self.end - self.start)

    def clipped(self, since: float, until: float) -> Self | None:
        """The part of it inside a window of time, if there is one."""
        start, end = max(self.start, since), min(self.end, until)
        return replace(self, start=start, end=end) if end > start else None


def device_runs(devices: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Runs of neighbouring devices as (first, count)."""
    ordered = sorted(devices)
    first = 0
    for position, device in enumerate(ordered):
        if position + 1 == len(ordered) or ordered[position + 1] != device + 1:
            yield ordered[first], position - first + 1
            first = position + 1


def bars_of(job_id: str, devices: Iterable[int], start: float, end: float) -> Iterator[Bar]:
    """A job's devices from ``start`` to ``end``: a bar for each run of neighbours, none if that is no time."""
    if end > start:
        yield from (Bar(job_id, first, count, start, end) for first, count in device_runs(devices))


@dataclass(slots=True)
class Timeline:
    """All bars of a run."""

    bars: list[Bar] = field(default_factory=list)

    def add(self, grant: Grant, start: float, end: float) -> None:
        """Record a grant that was held from ``start`` to ``end``."""
        self.bars.extend(bars_of(grant.job_id, grant.devices, start, end))


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Times of a window as places on a line of some length."""

    since: float
    until: float
    length: float

    @property
    def seconds(self) -> float:
        return max(self.until - self.since, 1e-9)

    def place(self, at: float) -> float:
        return min(max(self.length * (at - self.since) / self.seconds, 0.0), self.length)

    def extent(self, bar: Bar, least: float = 0.0) -> tuple[float, float]:
        """Where a bar begins and how long it is, at least ``least`` so that it can be seen."""
        start = self.place(bar.start)
        return start, max(self.place(bar.end) - start, least)


def node_rows(cluster: Cluster) -> list[tuple[int, str]]:
    """The first row of every node, and its name."""
    return [(cluster.devices_of(position).start, node.name) for position, node in enumerate(cluster.nodes)]


def named_rows(nodes: Sequence[tuple[int, str]]) -> Sequence[tuple[int, str]]:
    """As many of the nodes' rows as can be named without a crowd."""
    return nodes[:: max(1, round(len(nodes) / MOST_NAMED_ROWS))]
