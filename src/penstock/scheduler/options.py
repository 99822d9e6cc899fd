"""The ways in which every job could run on one kind of device, as matrices with a line per job."""

from typing import Any

import numpy as np

from penstock.core import Job
from penstock.policies import OPTION_COLUMNS, Floats, Ints, KindOptions
from penstock.scheduler.windows import Windows

_START_ROWS = 16
_MATRICES = ("rates", "doubts", "watts")
_INTS = ("depth", "requested", "sized_for")


def usable_levels(job: Job, kind: str, size: int) -> tuple[tuple[int, float], ...]:
    """The (count, rate) pairs at which a job could run on ``size`` devices of a kind."""
    if job.kinds and kind not in job.kinds:
        return ()
    return job.curve.levels(kind, job.at_least, size if job.at_most is None else min(job.at_most, size))


class OptionTable:
    """Options of all rows of a :class:`~penstock.scheduler.table.JobTable` on one kind; see :class:`KindOptions`.

    ``sized_for`` is the number of devices that a row's options were derived for.
    """

    levels: Ints
    rates: Floats
    doubts: Floats
    watts: Floats
    depth: Ints
    requested: Ints
    sized_for: Ints

    def __init__(self, kind: str, rows: int = _START_ROWS) -> None:
        self.kind = kind
        self.levels = np.zeros((rows, 1), dtype=np.int64)
        self.requested_rate: Floats = np.zeros(rows)
        self._matrices: Floats = np.zeros((len(_MATRICES), rows, 1))
        self._ints: Ints = np.zeros((len(_INTS), rows), dtype=np.int64)
        self._connect()

    def _connect(self) -> None:
        """Make every column an attribute: a view of its place in the arrays that hold several."""
        for name, matrix in zip(_MATRICES, self._matrices, strict=True):
            setattr(self, name, matrix)
        for name, column in zip(_INTS, self._ints, strict=True):
            setattr(self, name, column)
        self._windows: Windows | None = None

    def derive(self, row: int, job: Job, size: int, *, bound: bool) -> None:
        """What follows from the job's curve and bounds on ``size`` devices.

        A job that is bound to this kind and cannot run on so few keeps the options it had.
        """
        levels = usable_levels(job, self.kind, size)
        if not levels and bound:
            if self.depth[row]:
                return
            levels = job.curve.levels(self.kind, job.at_least, max(size, job.at_least))
        self.sized_for[row] = size
        self.depth[row] = len(levels)
        if not levels:
            self._clear(row)
            return
        if len(levels) > self.levels.shape[1]:
            self._widen(len(levels))
        counts, rates = [count for count, _ in levels], [rate for _, rate in levels]
        padding = self.levels.shape[1] - len(levels)
        doubts = [job.curve.doubt(count, self.kind) for count in counts]
        self.levels[row] = counts + counts[-1:] * padding
        self.rates[row] = rates + rates[-1:] * padding
        self.doubts[row] = doubts + doubts[-1:] * padding
        self.watts[row] = 0.0
        if job.curve.has_watts(self.kind):
            watts = [job.curve.watts(count, self.kind) for count in counts]
            self.watts[row] = watts + watts[-1:] * padding
        at_most = size if job.at_most is None else min(job.at_most, size)
        requested = min(max(job.requested, counts[0]), max(at_most, counts[0]))
        self.requested[row] = requested
        self.requested_rate[row] = job.curve.rate(requested, self.kind)

    def reset(self, row: int) -> None:
        """Forget what the row was for."""
        self.depth[row] = 0

    def move(self, source: int, target: int) -> None:
        """The options of one row become those of another."""
        self.levels[target] = self.levels[source]
        self.requested_rate[target] = self.requested_rate[source]
        self._matrices[:, target] = self._matrices[:, source]
        self._ints[:, target] = self._ints[:, source]

    def shown(self, used: Any) -> KindOptions:
        """Read-only columns of some rows; no copy for a slice."""
        if self._windows is None:
            self._windows = Windows(self, OPTION_COLUMNS)
        return KindOptions(self._windows.of_rows(used))

    def copy(self) -> "OptionTable":
        """An independent table."""
        other = OptionTable.__new__(OptionTable)
        other.kind = self.kind
        other.levels, other.requested_rate = self.levels.copy(), self.requested_rate.copy()
        other._matrices, other._ints = self._matrices.copy(), self._ints.copy()
        other._connect()
        return other

    def grow(self, rows: int) -> None:
        """Room for that many rows."""
        extra = rows - len(self.levels)
        self.levels = np.pad(self.levels, ((0, extra), (0, 0)))
        self.requested_rate = np.pad(self.requested_rate, (0, extra))
        self._matrices = np.pad(self._matrices, ((0, 0), (0, extra), (0, 0)))
        self._ints = np.pad(self._ints, ((0, 0), (0, extra)))
        self._connect()

    def _clear(self, row: int) -> None:
        self.levels[row] = self.requested[row] = 0
        self._matrices[:, row] = self.requested_rate[row] = 0.0

    def _widen(self, count: int) -> None:
        extra = count - self.levels.shape[1]
        self.levels = np.pad(self.levels, ((0, 0), (0, extra)), mode="edge")
        self._matrices = np.pad(self._matrices, ((0, 0), (0, 0), (0, extra)), mode="edge")
        self._connect()
