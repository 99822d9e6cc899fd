"""Processes as the agent needs them: groups that end as a whole, and nothing that outlives the run.

A worker leads its own process group, so one signal reaches all it started. What leaves the group (a daemon, a new
session) is still a descendant of the agent, because the agent is a *subreaper*: orphans below it become its children.
What outlives even the agent carries the run's directory in its environment and is found by that.
"""

import ctypes
import errno
import fcntl
import os
import signal
import subprocess
import termios
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.backends.agent.control_groups import ControlGroup
from penstock.tools import UnixUser, give_up_privileges, process_options

SHORTAGES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS})
"""What a call fails with when the machine has too little of something."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish"})


def become_subreaper() -> None:
    """Adopt every orphan below this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


@dataclass(frozen=True, slots=True)
class Identity:
    """As whom the processes of a run are started: a user, None for our own, and the file mode mask they begin with.

    ``group`` is the control group that limits them, where there is one.
    """

    user: UnixUser | None = None
    umask: int = -1
    group: ControlGroup | None = None


OURSELVES = Identity()


def start_process(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    stdin: int,
    stdout: int,
    stderr: int,
    identity: Identity = OURSELVES,
    *,
    terminal: bool = False,
) -> "subprocess.Popen[bytes]":
    """A process that leads its own group and is killed should this one die without a word.

    With ``terminal`` its input is one, which becomes its own: keys such as Ctrl-C reach what runs there.

    Who it runs as is settled before that is asked of the kernel, which forgets the wish when the user changes.
    """
    started = subprocess.Popen(
        argv, env=dict(env), cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, umask=identity.umask,
        process_group=None if terminal else 0, start_new_session=terminal,
        preexec_fn=partial(_begin, identity, terminal=terminal),  # noqa: PLW1509 (an agent has one thread)
        **process_options(identity.user),
    )  # fmt: skip
    if identity.group is not None and identity.user is not None:
        identity.group.admit(started.pid)  # older kernels do not let a user in by a file that we have opened
    return started


def is_shell(command: Sequence[str]) -> bool:
    """Whether the command's own process is a shell, which would not pass a signal on."""
    return Path(command[0]).name in _SHELLS


def terminate(pid: int, whole_group: bool) -> None:
    """Ask a worker to end.

    Only the worker itself is asked, because helpers that die under it (data loaders) would turn its orderly end into
    a crash; a shell is asked together with what it runs.
    """
    with suppress(ProcessLookupError):
        if whole_group and _leads_group(pid):
            os.killpg(pid, signal.SIGTERM)
        else:
            os.kill(pid, signal.SIGTERM)


def kill_tree(pid: int) -> None:
    """End a worker, its group and all its descendants, wherever they moved."""
    below = list(_descendants(pid))
    if _leads_group(pid):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    kill_all([pid, *below])


def kill_group(pid: int) -> None:
    """End what is left of the group of a worker that has just gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def group_exists(pid: int) -> bool:
    """Whether anyone is left in the group of a worker that has gone."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


def has_children() -> bool:
    """Whether this process has any, alive or not yet waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def kill_below(root: int, spare: frozenset[int], trees: frozenset[int] = frozenset()) -> list[int]:
    """Kill every descendant of ``root`` except those spared, and those in ``trees`` with all below them.

    Returns whom it found alive.
    """
    if root == os.getpid() and not has_children():
        return []
    found = [pid for pid in _descendants(root, trees) if pid not in spare]
    kill_all(found)
    return found


def kill_strays(run_dirs: Collection[Path]) -> list[int]:
    """Kill what dead agents left running: every process whose environment names one of the runs' directories."""
    marks = {b"PENSTOCK_RUN_DIR=" + os.fsencode(run_dir) for run_dir in run_dirs}
    found = [pid for pid in _all_pids() if pid != os.getpid() and not marks.isdisjoint(_environment(pid))]
    kill_all(found)
    return found


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """A process that cannot be mistaken for a later one of the same number: when it began is part of it."""

    pid: int
    began: str

    @classmethod
    def of(cls, pid: int, program: str) -> "ProcessMark":
        """The mark of a process that runs ``program``; of any other it fits nobody."""
        return cls(pid, _began(pid) if program.encode() in _command_line(pid) else "")


def kill_marked(mark: ProcessMark) -> None:
    """End a process with all its descendants, the process first: so it cannot start others in their place."""
    if not mark.began or _began(mark.pid) != mark.began:
        return
    below = list(_descendants(mark.pid))
    kill_all([mark.pid, *below])
    kill_all([pid for root in below for pid in _descendants(root)])


def signal_below(root: int, number: int) -> None:
    """Send a signal to every descendant of a process, and not to the process itself."""
    for pid in list(_descendants(root)):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_all(pids: Sequence[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def is_known(pid: int) -> bool:
    """Whether the kernel still has anything to say about a process, be it only how it ended."""
    return _parent_and_state(pid)[1] != ""


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal; one that has none might end by it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), 0)
    return bool(caught >> (number - 1) & 1)


def is_child_of(pid: int, parent: int) -> bool:
    """Whether a process was started by another, or came to it as an orphan."""
    return _parent_and_state(pid)[0] == parent


def account_of(root: int) -> tuple[float, int]:
    """Processor seconds of all that ever ran below a process and has been waited for or lives, and the memory held now.

    Parents are read before their children: one that ends in between is missing for once, and never counted twice.
    """
    ticks, pages = sum(_numbers(root)[2:4]), 0
    waiting = _children(root)
    while waiting:
        pid = waiting.pop()
        *times, resident = _numbers(pid)
        ticks, pages = ticks + sum(times), pages + resident
        waiting += _children(pid)
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")


def exit_code(status: int) -> tuple[int, int | None]:
    """A wait status as shells show it (137 for SIGKILL), and the signal if there was one."""
    code = os.waitstatus_to_exitcode(status)
    return (code, None) if code >= 0 else (128 - code, -code)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have the kernel kill this process with the one that started it."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _begin(identity: Identity, *, terminal: bool) -> None:
    """What a new process does before it becomes somebody else's program."""
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if identity.group is not None:
        identity.group.enter()
    if identity.user is not None:
        give_up_privileges()
    die_with_parent()


def _leads_group(pid: int) -> bool:
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False


def _descendants(root: int, without: frozenset[int] = frozenset()) -> Iterator[int]:
    """Those below a process, but for the trees of some of them."""
    children: dict[int, list[int]] = {}
    for pid in _all_pids():
        parent, state = _parent_and_state(pid)
        if state not in ("", "Z", "X"):
            children.setdefault(parent, []).append(pid)
    waiting = [root]
    while waiting:
        below = [pid for pid in children.get(waiting.pop(), []) if pid not in without]
        yield from below
        waiting.extend(below)


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent_and_state(pid: int) -> tuple[int, str]:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0, ""
    state, parent = stat.rpartition(")")[2].split()[:2]
    return int(parent), state


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _began(pid: int) -> str:
    """The kernel's own date of a process, in ticks since the machine started; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def _numbers(pid: int) -> tuple[int, int, int, int, int]:
    """Ticks of user and system time, the same of children that were waited for, and resident pages."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, 0, 0, 0, 0
    user, system, of_children, of_children_system = map(int, fields[11:15])
    return user, system, of_children, of_children_system, int(fields[21])


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
