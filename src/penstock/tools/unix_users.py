"""Other users of this machine: who they are, how to start a process as one of them, how to touch files as one of them.

Only a process that runs as root may do either. A file that somebody else named is opened as that somebody: otherwise a
path in a job file would be read with the rights of the server.
"""

import ctypes
import os
import pwd
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PR_SET_NO_NEW_PRIVS = 38
_LIBC = ctypes.CDLL(None, use_errno=True)
_acting = threading.local()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixUser:
    """An account of this machine."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str = "/bin/sh"

    @classmethod
    def named(cls, name: str) -> "UnixUser":
        """The account of that name; raises KeyError where there is none."""
        found = pwd.getpwnam(name)
        return cls(name=name, uid=found.pw_uid, gid=found.pw_gid, home=found.pw_dir, shell=found.pw_shell)

    @property
    def variables(self) -> dict[str, str]:
        """What a login would set."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}


def process_options(user: UnixUser | None) -> dict[str, Any]:
    """Arguments of ``subprocess.Popen`` that start a process as ``user``, with all groups of that user and no other."""
    if user is None:
        return {}
    groups = os.getgrouplist(user.name, user.gid)
    return {"user": user.uid, "group": user.gid, "extra_groups": groups}


def give_up_privileges() -> None:
    """Have no program started from here on change its user: ``sudo`` and the like do nothing."""
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


@contextmanager
def acting_as(user: UnixUser | None) -> Iterator[None]:
    """Open, read and create files in this thread as ``user`` would; the rest of the process stays what it is."""
    if user is None or getattr(_acting, "user", None) == user:
        yield
        return
    _LIBC.setfsgid(user.gid)
    _LIBC.setfsuid(user.uid)
    _acting.user = user
    try:
        yield
    finally:
        _acting.user = None
        _LIBC.setfsuid(os.geteuid())
        _LIBC.setfsgid(os.getegid())


def may_execute(user: UnixUser, program: str) -> bool:
    """Whether a user can start a program: every directory on the way lets them through."""
    try:
        with acting_as(user), Path(program).open("rb"):
            return True
    except OSError:
        return False


def closed_to(user: UnixUser, directories: Iterable[str]) -> list[str]:
    """Those of some directories that are there and that a user cannot list, each once."""
    there = [directory for directory in dict.fromkeys(directories) if directory and os.path.isdir(directory)]
    with acting_as(user):
        return [directory for directory in there if not _lists(directory)]


def _lists(directory: str) -> bool:
    try:
        os.scandir(directory).close()
    except OSError:
        return False
    return True
