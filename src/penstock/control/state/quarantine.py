"""Entries that were set aside because they could not be read or taken in: how many there are, and which.

They stay in the log, where ``penstock events`` shows them; this is what makes sure that somebody hears of it.
"""

from penstock.control.state.entries import Quarantined
from penstock.control.state.store import Line, Log

_NAMED = 3


class Quarantine:
    """What the log says was set aside; submissions that were turned away are not in the log and do not count."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lines: list[Line] = []

    def look(self) -> None:
        """Read the log again: something was set aside."""
        lines = self._log.of_kind(Quarantined.__name__)
        self._lines = [line for line in lines if line.payload.get("seq")]

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def entries(self) -> list[int]:
        """The numbers of what was set aside."""
        return [int(line.payload["seq"]) for line in self._lines]

    @property
    def warning(self) -> str:
        """A sentence for whoever looks after the platform; empty if nothing was set aside."""
        if not self._lines:
            return ""
        named = ", ".join(
            f"{line.payload.get('kind')} (event {line.payload.get('seq')})" for line in self._lines[-_NAMED:]
        )
        more = "" if len(self._lines) <= _NAMED else f" and {len(self._lines) - _NAMED} before"
        many = "1 entry of the log was" if len(self._lines) == 1 else f"{len(self._lines)} entries of the log were"
        return (
            f"{many} set aside because it could not be taken in: {named}{more}; penstock events --all names the cause"
        )
