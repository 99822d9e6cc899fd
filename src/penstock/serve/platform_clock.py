"""The clock of a server, which goes on where the last server of this machine's present start has left it.

A server that is started while the wall clock is wrong would otherwise believe it. What is kept is the offset between
the wall and the machine's own clock, which means nothing after the machine has been started again.
"""

import json
from pathlib import Path

from penstock.tools import SteadyClock, boot_id, write_atomically

_FILE = "clock.json"


def kept_clock(directory: Path) -> SteadyClock:
    """A clock that goes on from what was kept in a directory, if that is of this start of the machine."""
    return SteadyClock(offset=_kept_offset(directory / _FILE))


def keep_clock(directory: Path, clock: SteadyClock) -> None:
    """Let the next server go on from here."""
    write_atomically(directory / _FILE, json.dumps({"boot_id": boot_id(), "offset": clock.offset}), mode=0o600)


def _kept_offset(file: Path) -> float | None:
    try:
        kept = json.loads(file.read_text())
        return float(kept["offset"]) if kept["boot_id"] == boot_id() != "" else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
