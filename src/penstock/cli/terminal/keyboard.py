"""Single key presses, where there is a keyboard."""

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Keys:
    """Waits for a key or for time to pass, whichever comes first."""

    def __init__(self, source: int | None) -> None:
        self._source = source

    def wait(self, seconds: float) -> str:
        """The key that was pressed, or nothing once the time is over."""
        if self._source is None:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([self._source], [], [], seconds)
        return os.read(self._source, 1).decode("ascii", "ignore") if ready else ""


@contextmanager
def keyboard() -> Iterator[Keys]:
    """The terminal without waiting for Enter and without echo, for as long as this lasts; Ctrl-C works as ever."""
    try:
        import termios
        import tty
    except ImportError:
        yield Keys(None)
        return
    if not sys.stdin.isatty():
        yield Keys(None)
        return
    source = sys.stdin.fileno()
    before = termios.tcgetattr(source)
    try:
        tty.setcbreak(source)
        yield Keys(source)
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, before)
