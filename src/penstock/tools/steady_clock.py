"""Time that does not believe a glitch of the wall clock.

The wall clock can be set by people and by time servers, to anything, for any while. The machine's own clock only
counts, through suspension too. So time goes on by the machine's clock, from what the wall said once; the wall is
followed at once where it is off by little, and where it steps, only after it has stayed there for long. Time never goes
back: what it is ahead of the wall it loses slowly, by passing at half its speed.

An *offset* is the difference between the two clocks. It means something for as long as the machine is not started
again, on the same machine: whoever is told an offset tells the same time (:meth:`SteadyClock.offset`).
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_log = logging.getLogger(__name__)
SMALL_S = 2.0
"""What the wall may be off by without anybody being told: drift, and the corrections of a time server."""
LASTING_S = 600.0
"""How long the wall must have stayed where it stepped to before it is followed."""
_SLOWED = 0.5
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def since_boot() -> float:
    """Seconds that this machine has been up, asleep or not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def boot_id() -> str:
    """What tells one start of this machine from the next; empty where nobody can say."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


@dataclass(slots=True)
class _Step:
    """The wall is elsewhere, by ``seconds``, since a moment of the machine's clock."""

    seconds: float
    since: float


class SteadyClock:
    """Seconds since the epoch. ``offset`` is the one to go on with, if it is known from before."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        machine: Callable[[], float] = since_boot,
        *,
        offset: float | None = None,
        lasting_s: float = LASTING_S,
    ) -> None:
        self._wall = wall
        self._machine = machine
        self._lasting_s = lasting_s
        self._lock = threading.Lock()
        self._read_at = machine()
        self._offset = wall() - self._read_at if offset is None else offset
        self._ahead_s = 0.0
        self._step: _Step | None = None

    def __call__(self) -> float:
        with self._lock:
            machine = self._machine()
            elapsed = max(0.0, machine - self._read_at)
            self._read_at += elapsed
            self._ahead_s = max(0.0, self._ahead_s - _SLOWED * elapsed)
            self._compare(self._wall() - self._read_at - self._offset)
            return self._read_at + self._offset + self._ahead_s

    @property
    def offset(self) -> float:
        """What to add to the machine's clock."""
        self()
        with self._lock:
            return self._offset + self._ahead_s

    @property
    def step_s(self) -> float:
        """How far the wall is from what is believed; nothing if it is where it should be."""
        return self._step.seconds if self._step is not None else 0.0

    @property
    def notice(self) -> str:
        """What is wrong with the clocks at present; empty if all is well."""
        if self._step is not None:
            return (
                f"the wall clock is {_told(self._step.seconds)} the platform's time; it is followed if it stays there"
            )
        if self._ahead_s > SMALL_S:
            return f"the platform's time is {self._ahead_s:.0f} s ahead of the clock; it passes slowly until they meet"
        return ""

    def not_before(self, at: float) -> None:
        """Time has already been ``at``: what is read from now on is no earlier."""
        with self._lock:
            self._ahead_s = max(self._ahead_s, at - self._read_at - self._offset)

    def _compare(self, off: float) -> None:
        if abs(off) <= SMALL_S:
            if self._step is not None:
                _log.warning("the wall clock is back where it was; nothing was dated by its step")
            self._step = None
            self._follow(off)
        elif self._step is None or abs(off - self._step.seconds) > SMALL_S:
            _log.warning("the wall clock is %s the platform's time; it is not believed yet", _told(off))
            self._step = _Step(off, self._read_at)
        elif self._read_at - self._step.since >= self._lasting_s:
            _log.warning("the wall clock has stayed %s the platform's time; it is followed", _told(off))
            self._step = None
            self._follow(off)

    def _follow(self, off: float) -> None:
        self._offset += off
        self._ahead_s = max(0.0, self._ahead_s - off)


def _told(seconds: float) -> str:
    return f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'}"
