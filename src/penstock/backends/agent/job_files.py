"""Files that a job may have put there: read as files and as nothing else.

A link would be followed with the rights of whoever reads, a pipe waited for, a directory is none.
"""

import os
import stat
from pathlib import Path


def read_regular(path: Path, most: int, offset: int = 0) -> bytes:
    """Up to ``most`` bytes of a file from ``offset`` on; nothing of what is no regular file."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return b""
        file.seek(offset)
        return file.read(most)
