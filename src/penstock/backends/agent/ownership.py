"""Whose files are whose in the directory of a run whose workers are another user's processes.

The directory belongs to the agent: its journal, its logs, its sockets and the orders it was given are nobody's to read
or to change. Workers may pass through it to what is handed over to them, each file or directory by name. All of this is
nothing where workers run as the agent's own user.
"""

import os
from pathlib import Path

from penstock.tools import UnixUser


def let_through(directory: Path, user: UnixUser | None) -> None:
    """Make a directory that ``user`` can pass through and not list; without a user it is the agent's alone."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if user is not None:
        os.chown(directory, -1, user.gid)
        directory.chmod(0o710)


def hand_over(path: Path, user: UnixUser | None) -> None:
    """Make a file or directory the user's own. Its parent must not be: a name in there could be anything by now."""
    if user is not None:
        os.chown(path, user.uid, user.gid, follow_symlinks=False)


def own_directory(path: Path, user: UnixUser | None) -> None:
    """A directory in which only ``user`` may read and write."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    hand_over(path, user)
