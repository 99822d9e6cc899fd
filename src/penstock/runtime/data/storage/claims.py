"""Who writes to a place writes alone: two packings at once would mix their shards and vouch for what the other wrote.

The lock is on the directory itself, so nothing is left behind, and it ends with the process. A file system that knows
no locks gives none; a bucket has none beyond this machine.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from penstock.core import InputError


class Claim:
    """The right to write below a directory, until it is released; the directory is made if need be."""

    def __init__(self, directory: Path, place: str) -> None:
        self._handle = -1
        self._directory = directory
        self._is_new = not directory.exists()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as problem:
            raise InputError(
                f"{place} cannot be written to: {problem.strerror}", "a directory that is there or can be made",
                "Check the path and its rights",
            ) from None  # fmt: skip
        self._lock(place)

    def _lock(self, place: str) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._handle)
            self._handle = -1
            raise InputError(
                f"another packing is writing to {place}",
                "one at a time",
                "Wait until it is through, or give another place",
            ) from None
        except OSError:
            return

    def release(self) -> None:
        """Let others write; a directory that was made in vain goes."""
        if self._handle >= 0:
            if self._is_new:
                with suppress(OSError):
                    self._directory.rmdir()
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        self.release()
