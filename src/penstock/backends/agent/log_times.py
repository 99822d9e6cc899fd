"""When the parts of a log were written: a small file beside it, because workers stamp their lines or do not.

A line is a moment and an offset. There is one for each second with output at most, and those of output that was
rotated away go with it, so the file is bounded as the log is.
"""

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from penstock.tools import write_atomically

SPACING_S = 1.0


def times_of(log: Path) -> Path:
    """Where the times of a log are."""
    return log.with_name(f"{log.name}.times")


class LogTimes:
    """Notes when a log was written to. A full disk loses times, never the run."""

    def __init__(self, log: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = times_of(log)
        self._clock = clock
        self._last = 0.0

    def mark(self, offset: int) -> None:
        """What stands from ``offset`` on is written now."""
        now = self._clock()
        if now - self._last < SPACING_S:
            return
        self._last = now
        with suppress(OSError):
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, b"%.3f %d\n" % (now, offset))
            finally:
                os.close(handle)

    def forget_before(self, offset: int) -> None:
        """The log begins at ``offset`` now."""
        marks = _marks(self._path)
        kept = [mark for mark, following in pairwise([*marks, (0.0, offset + 1)]) if following[1] > offset]
        with suppress(OSError):
            write_atomically(self._path, "".join(f"{at:.3f} {start}\n" for at, start in kept), mode=0o600)


def noted_offset(log: Path, moment: float) -> int | None:
    """Where output begins that was written at ``moment`` or later, to a second; none if nothing was.

    All of it, where nobody noted when it was written.
    """
    marks = _marks(times_of(log)) or [(math.inf, 0)]
    return next((offset for at, offset in marks if at + SPACING_S > moment), None)


def _marks(path: Path) -> list[tuple[float, int]]:
    """What was noted, oldest first; a line that was cut off is passed over."""
    found: list[tuple[float, int]] = []
    with suppress(OSError):
        for line in path.read_text(errors="replace").splitlines():
            with suppress(ValueError):
                at, offset = line.split(" ")
                found.append((float(at), int(offset)))
    return found
