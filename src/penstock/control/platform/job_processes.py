"""Commands that people run beside the workers of a job, to look what it does: on its machine, as its user, for a while.

A command is a process group of its own. It ends with the request that asked for it and with the run it was started in.
"""

import asyncio
import codecs
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.control.loop.reconciler import Reconciler
from penstock.control.state.records import JobRecord
from penstock.core import InputError, UnknownNameError
from penstock.tools import process_options
from penstock.wire import ConflictError, TerminalSize

if TYPE_CHECKING:
    from penstock.backends import RunEnvironment

_WAIT_S = 5.0
_CHUNK = 1 << 16
_KEYS_AT_ONCE = 512
_UNPRIVILEGED = "import ctypes; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)"
"""Has no program started from there change its user, as the workers of a job cannot either."""
_OWN_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
"""Lets keys such as Ctrl-C reach what runs in the terminal."""
_GO_ON = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"


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
    while (record.grant is not None or record.released) and not record.over:
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

    async def begin(self) -> Process:
        """Start it, unless it has been; raises :class:`~penstock.core.InputError` where that is not possible."""
        self._process = self._process or await self._start()
        return self._process

    async def read(self) -> tuple[str, int | None]:
        """Some more output, perhaps none, and the exit code once there is no more."""
        process = await self.begin()
        if not self._is_current():
            self.end()
        try:
            data = await asyncio.wait_for(self._some(process), _WAIT_S)
        except TimeoutError:
            return "", _exit_code(process.returncode)
        text = self._decoder.decode(data, final=not data)
        if data:
            return text, None
        return text, _exit_code(await process.wait())

    def end(self) -> None:
        """Kill it with everything it started, if it is still there."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _some(self, process: Process) -> bytes:
        assert process.stdout is not None
        return await process.stdout.read(_CHUNK)

    async def _start(self) -> Process:
        begin = [] if self._around.user is None else [sys.executable, "-I", "-c", f"{_UNPRIVILEGED}; {_GO_ON}"]
        return await self._started([*begin, *self._command], stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)

    async def _started(self, words: Sequence[str], **ends: Any) -> Process:
        try:
            return await asyncio.create_subprocess_exec(
                words[0], *words[1:], **ends, **process_options(self._around.user), start_new_session=True,
                cwd=self._around.directory, env=dict(self._around.variables),
            )  # fmt: skip
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise InputError(
                f"{self._command[0]!r} cannot be started: {said}", "a command of the job's own machine",
                "Check its name, or give its path",
            ) from None  # fmt: skip


def _exit_code(code: int | None) -> int | None:
    """As a shell says it, also of one that a signal ended; none as long as it runs."""
    return code if code is None or code >= 0 else 128 - code


class TerminalProcess(JobProcess):
    """One command in a terminal of its own, to which somebody types."""

    def __init__(
        self,
        command: Sequence[str],
        around: "RunEnvironment",
        is_current: Callable[[], bool],
        size: TerminalSize,
    ) -> None:
        super().__init__(command, around, is_current)
        self._size = size
        self._terminal: int | None = None

    def type(self, text: str, size: TerminalSize | None = None) -> None:
        """Keys that were pressed, and the size of the window if it is another."""
        if self._terminal is None:
            raise ConflictError("the command has not begun or is over", "a command that runs", "Start another")
        if size is not None:
            _set_size(self._terminal, size)
        data = text.encode()
        while data:
            data = data[os.write(self._terminal, data[:_KEYS_AT_ONCE]) :]

    def end(self) -> None:
        super().end()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None

    async def _some(self, process: Process) -> bytes:  # noqa: ARG002
        if self._terminal is None:
            return b""
        readable, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(self._terminal, readable.set)
        try:
            await readable.wait()
        finally:
            if self._terminal is not None:
                loop.remove_reader(self._terminal)
        try:
            return os.read(self._terminal, _CHUNK) if self._terminal is not None else b""
        except OSError:  # the last process that had the terminal open is gone
            return b""

    async def _start(self) -> Process:
        terminal, inside = pty.openpty()
        user = self._around.user
        try:
            _set_size(terminal, self._size)
            if user is not None:
                os.fchown(inside, user.uid, -1)
            first = [_UNPRIVILEGED] if user is not None else []
            words = [sys.executable, "-I", "-c", "; ".join([*first, _OWN_TERMINAL, _GO_ON]), *self._command]
            process = await self._started(words, stdin=inside, stdout=inside, stderr=inside)
        except BaseException:
            os.close(terminal)
            raise
        finally:
            os.close(inside)
        self._terminal = terminal
        return process


def _set_size(terminal: int, size: TerminalSize) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))
