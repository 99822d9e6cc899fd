"""Where in a machine's memory snapshots of a run's state may stay: for as long as the run, and no longer.

Workers write there between checkpoints (:mod:`penstock.runtime.checkpoints.memory`), so what they leave survives them.
Whoever owns the directory of a run gives its memory back with it.
"""

import hashlib
from contextlib import suppress
from pathlib import Path

from penstock.tools import remove_tree

SHARED_MEMORY = Path("/dev/shm")


def memory_place(run_directory: Path) -> Path | None:
    """The directory for a run's snapshots, which its first worker makes; none where a system has no such memory."""
    if not SHARED_MEMORY.is_dir():
        return None
    digest = hashlib.sha256(str(run_directory).encode()).hexdigest()[:16]
    return SHARED_MEMORY / f"penstock-{digest}"


def give_memory_back(run_directory: Path) -> None:
    """Remove what workers left there, however they ended."""
    place = memory_place(run_directory)
    if place is not None:
        with suppress(OSError):
            remove_tree(place)
