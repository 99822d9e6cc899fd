"""Commands that people run beside the workers of a job, to look what it does: on its machine, as its user, for a while.

A command is a process group of its own. It ends with the request that asked for it and with the run it was started in.
"""

import asyncio
import codecs
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.control.loop.reconciler import Reconciler
from penstock.control.state.records import JobRecord
from penstock.core import InputError, UnknownNameError
from penstock.tools import process_options
from penstock.wire import ConflictError

if TYPE_CHECKING:
    from penstock.backends import RunEnvironment

_WAIT_S = 5.0
_CHUNK = 1 << 16
_UNPRIVILEGED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0); os.execvp(sys.argv[1], sys.argv[1:])"
"""Has no program started from there change its user, as the workers of a job cannot either."""


def environment_of(record: JobRecord, reconciler: Reconciler) -> "RunEnvironment":
    """Where a command for this job is to run; raises where that is not possible."""
    find: Callable[[str], RunEnvironment | None] | None = getattr(reconciler.backend, "run_environment", None)
    if find is None:
        raise ConflictError(
            f"jobs of the backend {reconciler.backend.name} take no commands", "jobs on the server's own machine",
            "Use the engine's own way: kubectl exec, srun --overlap",
        )  # fmt: skip
    found = None if record.recipe.container is not None else _awaited(record, find)
    if found is None:
        raise ConflictError(
            f"job {record.id!r} has no run that takes commands now", "a job that is running, and not in a container",
            f"penstock why {record.id} says where it stands",
        )  # fmt: skip
    return found


def _awaited(
    record: JobRecord, find: "Callable[[str], RunEnvironment | None]", patience_s: float = 10.0
) -> "RunEnvironment | None":
    """That of a run which is there, or is just being started."""
    until = time.monotonic() + patience_s
    while record.grant is not None and not record.over:
        with suppress(UnknownNameError):
            if (found := find(record.run_id)) is not None:
                return found
        if time.monotonic() > until:
            break
        time.sleep(0.1)
    return None


class JobProcess:
    """One command; it is started when its output is first asked for. ``is_current`` says whether its run still is."""

    def __init__(self, command: Sequence[str], around: "RunEnvironment", is_current: Callable[[], bool]) -> None:
        self._command = list(command)
        self._around = around
        self._is_current = is_current
        self._process: Process | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    async def read(self) -> tuple[str, int | None]:
        """Some more output, perhaps none, and the exit code once there is no more."""
        process = self._process = self._process or await self._start()
        assert process.stdout is not None
        if not self._is_current():
            self.end()
        try:
            data = await asyncio.wait_for(process.stdout.read(_CHUNK), _WAIT_S)
        except TimeoutError:
            return "", None
        text = self._decoder.decode(data, final=not data)
        if data:
            return text, None
        code = await process.wait()
        return text, code if code >= 0 else 128 - code

    def end(self) -> None:
        """Kill it with everything it started, if it is still there."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _start(self) -> Process:
        user = self._around.user
        words = self._command if user is None else [sys.executable, "-I", "-c", _UNPRIVILEGED, *self._command]
        try:
            return await asyncio.create_subprocess_exec(
                *words, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, cwd=self._around.directory,
                env=dict(self._around.variables), start_new_session=True, **process_options(user),
            )  # fmt: skip
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise InputError(
                f"{self._command[0]!r} cannot be started: {said}", "a command of the job's own machine",
                "Check its name, or give its path",
            ) from None  # fmt: skip
