"""The parent of an agent or of a worker host: it waits, and ends what an agent that was killed has left behind.

A process that leaves its group, its session and its environment (``env -i setsid``) is still a descendant. The kernel
gives orphans to their nearest ancestor that asked for them: to the agent while it lives, and after its death to the
parent, which asked as well. So there is no way out of a run but to end both.
"""

import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from penstock.backends.agent.processes import SHORTAGES, become_subreaper, kill_below

_INSIST_S = 10.0
_UNHEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_below_subreaper(
    agent: Callable[[], int],
    forwarded: Collection[signal.Signals] = (),
    at_end: Callable[[], None] = lambda: None,
) -> int:
    """Run an agent in a child of this process, outlive it, and leave nothing of it behind; returns its exit code.

    Signals that are ``forwarded`` reach the child, others that would end this process are not heeded.
    """
    become_subreaper()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, forwarded)
    pid = _fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        return agent()
    for number in _UNHEEDED:
        signal.signal(number, signal.SIG_IGN)
    for number in forwarded:
        signal.signal(number, lambda got, _: _pass_on(pid, got))
    signal.pthread_sigmask(signal.SIG_SETMASK, held)
    code = _wait_for(pid)
    end_all_below()
    at_end()
    os._exit(code)


def end_all_below() -> None:
    """Kill everything below this process, which adopts orphans, until nothing is left."""
    deadline = time.monotonic() + _INSIST_S
    while kill_below(os.getpid(), frozenset()) and time.monotonic() < deadline:
        time.sleep(0.01)
        _reap()


def _fork() -> int:
    """Fork, also if the machine has no process to spare at this moment."""
    deadline = time.monotonic() + _INSIST_S
    while True:
        try:
            return os.fork()
        except OSError as error:
            if error.errno not in SHORTAGES or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _pass_on(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _wait_for(agent: int) -> int:
    """The exit code of the agent; orphans that end meanwhile are waited for."""
    while True:
        pid, status = os.wait()
        if pid == agent:
            return max(0, os.waitstatus_to_exitcode(status))


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
