"""Who ran where, compactly: every bar while there are few enough, else a grid that says how coarse it is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.policies import Ints
from penstock.simulate.report.packing import pack_ints
from penstock.simulate.report.series import Clockwork
from penstock.simulate.timeline import Bar, Timeline

MOST_BARS = 60_000
"""More than this per policy would make the page slow to open and too large to mail."""
_TICKS = 1 << 18
_GRID_CELLS = 1_500_000
_NOBODY = -1


@dataclass(frozen=True, slots=True)
class Gantt:
    """Rectangles in ticks of ``tick_s`` since the start. ``merged_s`` is the grid they were merged on; 0: none was."""

    start: Ints
    length: Ints
    device: Ints
    count: Ints
    job: Ints
    tick_s: float
    merged_s: float = 0.0

    def packed(self) -> dict[str, Any]:
        order = np.lexsort((self.device, self.start))
        columns = {name: getattr(self, name)[order] for name in ("start", "length", "device", "count", "job")}
        return {
            "tick": self.tick_s, "merged": self.merged_s,
            **{name: pack_ints(values) for name, values in columns.items()},
        }  # fmt: skip


def gantt_of(timeline: Timeline, ids: Sequence[str], devices: int, clock: Clockwork) -> Gantt:
    """All bars if they are few enough, else who held each cell of a grid longest without a break."""
    place = {name: row for row, name in enumerate(ids)}
    if len(timeline.bars) <= MOST_BARS:
        return _exact(timeline.bars, place, clock)
    bins = max(64, min(4096, _GRID_CELLS // devices))
    while True:
        drawn = _gridded(timeline.bars, place, devices, clock, bins)
        if len(drawn.start) <= MOST_BARS or bins <= 64:
            return drawn
        bins //= 2


def _exact(bars: Sequence[Bar], place: dict[str, int], clock: Clockwork) -> Gantt:
    tick_s = (clock.end - clock.start) / _TICKS
    starts = _rounded([bar.start - clock.start for bar in bars], tick_s)
    ends = _rounded([bar.end - clock.start for bar in bars], tick_s)
    return Gantt(
        starts, np.maximum(ends - starts, 1), _ints([bar.first_device for bar in bars]),
        _ints([bar.count for bar in bars]), _ints([place[bar.job_id] for bar in bars]), tick_s,
    )  # fmt: skip


def _gridded(bars: Sequence[Bar], place: dict[str, int], devices: int, clock: Clockwork, bins: int) -> Gantt:
    """Bars are painted from the shortest to the longest, so the longest that touches a cell is the one seen."""
    cell_s = (clock.end - clock.start) / bins
    cells = np.full((devices, bins), _NOBODY, dtype=np.int32)
    for bar in sorted(bars, key=lambda bar: bar.end - bar.start):
        first, last = round((bar.start - clock.start) / cell_s), round((bar.end - clock.start) / cell_s)
        if last > first:
            cells[bar.first_device : bar.first_device + bar.count, first:last] = place[bar.job_id]
    found = np.array(list(_rectangles(cells)), dtype=np.int64).reshape(-1, 5)
    start, length, device, count, job = found.T
    return Gantt(start, length, device, count, job, cell_s, merged_s=cell_s)


def _rectangles(cells: "np.ndarray[tuple[int, int], np.dtype[np.int32]]") -> Iterator[tuple[int, int, int, int, int]]:
    """Runs of one job in a row, joined with the same run in the rows below."""
    open_runs: dict[tuple[int, int, int], int] = {}
    for device, row in enumerate([*cells, None]):
        runs = set() if row is None else set(_runs(row))
        for start, end, job in [run for run in open_runs if run not in runs]:
            first = open_runs.pop((start, end, job))
            yield start, end - start, first, device - first, job
        for run in runs - open_runs.keys():
            open_runs[run] = device


def _runs(row: "np.ndarray[tuple[int], np.dtype[np.int32]]") -> Iterator[tuple[int, int, int]]:
    edges = np.flatnonzero(np.diff(row)) + 1
    bounds = [0, *edges.tolist(), len(row)]
    for start, end in pairwise(bounds):
        if row[start] != _NOBODY:
            yield start, end, int(row[start])


def _rounded(seconds: list[float], tick_s: float) -> Ints:
    return np.asarray(np.rint(np.array(seconds, dtype=np.float64) / tick_s), dtype=np.int64)


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)
