"""Processes that tests start are ended when the tests are over, however that happens.

Servers and agents detach on purpose (sessions of their own, parents that leave), so neither process groups nor parents
lead to them. What they cannot shed is the environment they were started with: it carries the mark of the test run. A
guard outside of the run ends everything with that mark as soon as the run is gone, even if it was killed, and removes
the temporary folder of the run.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

MARK = "TEST_RUN_MARK"
GRACE = "TEST_RUN_GRACE_S"
_GRACE_S = float(os.environ.get(GRACE, "3"))
_POLL_S = 0.3


class Guard:
    """Marks what is started from now on by this process and those below it, and ends it."""

    def __init__(self, folder: Path | None = None) -> None:
        self._mark = secrets.token_hex(8)
        unmarked = {name: value for name, value in os.environ.items() if name != MARK}
        os.environ[MARK] = self._mark
        self._watcher = subprocess.Popen(
            [sys.executable, __file__, self._mark, str(os.getpid()), str(folder or "")], env=unmarked,
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def end(self) -> None:
        end_marked(self._mark)
        self._watcher.kill()
        self._watcher.wait()


def hear_interrupts_again() -> None:
    """A shell makes what it starts in the background deaf to SIGINT, and children inherit that; tests send it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def end_marked(mark: str) -> None:
    """End every process with the mark and all below it: politely, then not."""
    found = _marked(mark)
    for process in found:
        with suppress(psutil.Error):
            process.terminate()
    psutil.wait_procs(found, timeout=_GRACE_S)
    for process in _marked(mark):
        with suppress(psutil.Error):
            process.kill()


def _marked(mark: str) -> list[psutil.Process]:
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                found |= {each.pid: each for each in (process, *process.children(recursive=True))}
    found.pop(os.getpid(), None)
    return list(found.values())


def _watch(mark: str, run: int, folder: str) -> None:
    while os.getppid() == run:
        time.sleep(_POLL_S)
    end_marked(mark)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _watch(sys.argv[1], int(sys.argv[2]), sys.argv[3])
