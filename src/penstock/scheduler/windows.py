"""Read-only windows on the arrays of a table.

The arrays of a table have room for more rows than there are and move when they grow. A window is a view of those that
are used; as long as neither changes, the same windows serve every decision.
"""

from collections.abc import Iterable, Mapping
from typing import Any


class Windows:
    """The arrays of ``table`` with these names; whoever moves one of them makes new windows."""

    def __init__(self, table: object, names: Iterable[str]) -> None:
        self._whole = {name: getattr(table, name).view() for name in names}
        for window in self._whole.values():
            window.flags.writeable = False
        self._first: RowWindows | None = None
        self._count = -1

    def of_rows(self, used: Any) -> "RowWindows":
        """Some rows, as a slice from the first or by position; no copy for a slice."""
        if not isinstance(used, slice):
            return RowWindows(self._whole, used, {})
        if self._first is None or self._count != used.stop:
            ready = {name: window[used] for name, window in self._whole.items()}
            self._first, self._count = RowWindows(self._whole, used, ready), used.stop
        return self._first


class RowWindows:
    """Some rows of every window: all of them ready for a slice, each gathered when it is asked for otherwise."""

    def __init__(self, whole: Mapping[str, Any], used: Any, ready: Mapping[str, Any]) -> None:
        self.ready = ready
        self._whole = whole
        self._used = used

    def __getitem__(self, name: str, /) -> Any:
        return self._whole[name][self._used]
