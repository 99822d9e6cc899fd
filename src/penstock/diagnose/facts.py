"""What a platform knows of a failed run besides its logs, as lines that signatures are about like any other.

So an exit code, a signal or a full memory limit is weighed by the same rules as what the script printed, and whoever
wants another rule for one of them writes a signature.
"""

import signal as signals
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.core import format_bytes

FACTS = "platform"
"""The source that such lines are of."""
_NEARLY_FULL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnd:
    """How one process ended, in the way of a shell or of Python: a code above 128, or below 0, is a signal."""

    rank: int | None = None
    node: str = ""
    code: int | None = None
    signal: int | None = None

    @property
    def signalled(self) -> int | None:
        """The signal that ended it, if one did."""
        return self.signal or _signal_of(self.code)

    @property
    def ending(self) -> str:
        if number := self.signalled:
            return f"was ended by signal {number} ({_name(number)})"
        return "" if self.code is None else f"ended with code {self.code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Everything besides the logs. ``events`` are sentences of the platform: a node was lost, a run preempted."""

    ends: tuple[WorkerEnd, ...] = ()
    memory_peak_bytes: int | None = None
    memory_limit_bytes: int | None = None
    events: tuple[str, ...] = ()

    @property
    def own_code(self) -> int | None:
        """The one code other than 0 that processes ended with by themselves; None if there are several, or none."""
        codes = {end.code for end in self.ends if end.code and end.signalled is None}
        return codes.pop() if len(codes) == 1 else None

    def lines(self) -> Iterator[str]:
        """One line per fact that says something."""
        for end in self.ends:
            who = "the process" if end.rank is None else f"rank {end.rank}"
            where = f" on node {end.node}" if end.node else ""
            if end.ending:
                yield f"penstock: {who}{where} {end.ending}"
        if self.memory_peak_bytes and self.memory_limit_bytes:
            full = self.memory_peak_bytes >= _NEARLY_FULL * self.memory_limit_bytes
            held = f"{format_bytes(self.memory_peak_bytes)} of the {format_bytes(self.memory_limit_bytes)} it may hold"
            yield f"penstock: memory limit {'reached' if full else 'kept'}: the run held {held}"
        for event in self.events:
            yield f"penstock: {event}"


def _signal_of(code: int | None) -> int | None:
    if code is None:
        return None
    return -code if code < 0 else code - 128 if 128 < code <= 128 + 64 else None


def _name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return "unknown"
