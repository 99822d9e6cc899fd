"""The columns of the job table as a decision sees them: those it looks at, at its time, gathered when they are read."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from penstock.policies import Floats
from penstock.scheduler.table import JobTable, Projection


class TableColumns:
    """Some rows of the table with their progress up to the time of a projection; every column is computed once."""

    def __init__(self, table: JobTable, projection: Projection, used: Any, deserved: Callable[[], Floats]) -> None:
        self._table = table
        self._deserved = deserved
        self._projection = projection
        self._used = used
        self._stored = table.windows.of_rows(used)
        self._derived: dict[str, Any] = {}

    @property
    def ready(self) -> Mapping[str, Any]:
        return self._stored.ready

    def __getitem__(self, name: str, /) -> Any:
        if name not in self._derived:
            if name == "deserved":
                self._derived[name] = self._deserved()
            elif name in _DERIVED:
                self._derived[name] = _DERIVED[name](self._table, self._projection, self._used)
            else:
                return self._stored[name]
        return self._derived[name]


def _still_s(table: JobTable, projection: Projection, used: Any) -> Floats:
    """Seconds that whoever holds devices is going to spend on them without progress."""
    trained_at = table.trained_at[used] if projection.ended is None else projection.ended.trained_at
    still_s = _pause_s(table, projection, used)
    left_s, ending = table.end_s[used], np.isfinite(trained_at)
    if np.count_nonzero(ending):
        left_s = np.maximum(left_s - np.where(ending, projection.now - trained_at, 0.0), 0.0)
    still_s += left_s * (table.width[used] > 0)
    return still_s


def _pause_s(table: JobTable, projection: Projection, used: Any) -> Floats:
    """The part of them that comes before any progress."""
    pause_s: Floats = np.maximum(table.resumes_at[used] - projection.now, 0.0)
    pause_s *= table.width[used] > 0
    return pause_s


_DERIVED: dict[str, Callable[[JobTable, Projection, Any], Any]] = {
    "remaining": lambda _table, projection, _used: projection.remaining,
    "executed": lambda table, projection, used: table.executed[used] + projection.held,
    "attained": lambda table, projection, used: table.attained_by(projection, used),
    "hard": lambda table, _projection, used: table.hard[used].astype(bool),
    "start_s": lambda table, _projection, used: table.start_s[used] + table.end_s[used],
    "resize_s": lambda table, projection, used: table.change_s(projection.now, table.width[used], used),
    "resumable": lambda table, _projection, used: table.resumable[used].astype(bool),
    "still_s": _still_s,
    "pause_s": _pause_s,
}
