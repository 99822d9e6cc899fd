"""A command beside the workers of a run: started as they are, seeing what they see, ended with all that it started.

A server starts this program in a process of its own and says on its input what to run. The input stays open for as long
as the command is wanted: when it closes, when the run's agent ends or when the command does, everything below this
process ends, whatever session it has moved to. Output goes where this program's goes, and what is wrong to its errors,
which are closed once the command has started.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.backends.agent.namespaces import share_view_of
from penstock.backends.agent.processes import Identity, become_subreaper, exit_code, start_process
from penstock.backends.agent.run_limits import enter_limited
from penstock.backends.agent.subreaper import end_all_below
from penstock.tools import UnixUser

_NOT_STARTED = 127
_KILLED = 128 + signal.SIGKILL


def main() -> int:
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # uvloop leaves a second one of each pipe open
    order = json.loads(sys.stdin.buffer.readline())
    ended, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    become_subreaper()
    watched = [sys.stdin.fileno()]
    try:
        if order["agent"]:
            watched.append(os.pidfd_open(order["agent"]))
        command = _started(order)
    except (OSError, ValueError) as error:
        sys.stderr.write(getattr(error, "strerror", None) or str(error))
        return _NOT_STARTED
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    code = _wait(command.pid, ended, watched)
    end_all_below()
    return code


def _started(order: Mapping[str, Any]) -> "subprocess.Popen[bytes]":
    user = None if order["user"] is None else UnixUser(**order["user"])
    if user is not None and order["agent"]:
        share_view_of(order["agent"])
    if order["run_directory"] is not None:
        enter_limited(Path(order["run_directory"]))
    output = sys.stdout.fileno()
    return start_process(
        order["words"], order["variables"], order["directory"], output if order["terminal"] else subprocess.DEVNULL,
        output, output, Identity(user), terminal=order["terminal"],
    )  # fmt: skip


def _wait(command: int, ended: int, watched: Sequence[int]) -> int:
    """The exit code of the command, as a shell says it; orphans that end meanwhile are waited for."""
    while True:
        ready, _, _ = select.select([ended, *watched], [], [])
        with suppress(BlockingIOError):
            os.read(ended, 1 << 12)
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == command:
                    return exit_code(found[1])[0]
        if not {*watched}.isdisjoint(ready):
            return _KILLED


if __name__ == "__main__":
    os._exit(main())
