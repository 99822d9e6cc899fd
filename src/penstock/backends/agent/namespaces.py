"""What a run sees of the machine's other processes: nothing, where the kernel lets us say so.

Users of one machine read each other's command lines in ``/proc``. A run whose workers are another user's gets a view of
its own, in which every user finds only their own processes; the agent, which is root's, still finds all.
"""

import ctypes
import os

_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MS_REC, _MS_SLAVE = 0x4000, 1 << 19
_LIBC = ctypes.CDLL(None, use_errno=True)


def hide_other_processes() -> bool:
    """Give this process and all it starts a ``/proc`` of their own; whether the kernel allowed it.

    Mounts that the machine gets later still appear here, so a run finds its data wherever it is mounted.
    """
    if _LIBC.unshare(_CLONE_NEWNS) != 0:
        return False
    if _LIBC.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None) != 0:
        return False
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    return bool(_LIBC.mount(b"proc", b"/proc", b"proc", flags, b"hidepid=2") == 0)


def share_view_of(pid: int) -> None:
    """Give this process the view that another one has, as those have that it started."""
    with open(f"/proc/{pid}/ns/mnt", "rb") as theirs, open("/proc/self/ns/mnt", "rb") as ours:
        if os.path.sameopenfile(theirs.fileno(), ours.fileno()):
            return
        if _LIBC.setns(theirs.fileno(), _CLONE_NEWNS) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"the run's view of the machine cannot be entered: {os.strerror(number)}")
