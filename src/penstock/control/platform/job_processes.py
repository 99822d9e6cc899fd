"""Commands that people run beside the workers of a job, to look what it does: on its machine, as its user, for a while.

A program between the server and the command starts it as the workers of the run are started, and ends it with all that
it started: with the request that asked for it, and with the run.
"""

import asyncio
import codecs
import fcntl
import os
import pty
import struct
import termios
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.control.loop.reconciler import Reconciler
from penstock.control.state.records import JobRecord
from penstock.core import InputError, UnknownNameError
from penstock.wire import ConflictError, TerminalSize

if TYPE_CHECKING:
    from penstock.backends import RunEnvironment

_WAIT_S = 5.0
_LONGEST_TROUBLE = 300
_CHUNK = 1 << 16
_KEYS_AT_ONCE = 512
_MOST_KEYS = 1 << 18
"""Bytes of keys that wait for a program to read them: at least as many as one request brings."""
_KEYS_AGAIN_S = 0.05


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
        return self._process or await self._start()

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
        """End it with everything it started, if it is still there."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def _some(self, process: Process) -> bytes:
        assert process.stdout is not None
        return await process.stdout.read(_CHUNK)

    async def _start(self) -> Process:
        return await self._started(PIPE)

    async def _started(self, output: int, *, terminal: bool = False) -> Process:
        program, order = self._around.side_command(self._command, terminal=terminal)
        process = self._process = await asyncio.create_subprocess_exec(
            *program, stdin=PIPE, stdout=output, stderr=PIPE, start_new_session=True
        )
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(order)
        if trouble := await process.stderr.read():
            raise InputError(
                f"{self._command[0]!r} cannot be started: {trouble.decode(errors='replace')[-_LONGEST_TROUBLE:]}",
                "a command of the job's own machine", "Check its name, or give its path",
            )  # fmt: skip
        return process


def _exit_code(code: int | None) -> int | None:
    """As a shell says it, also of one that a signal ended; none as long as it runs."""
    return code if code is None or code >= 0 else 128 - code


class TerminalProcess(JobProcess):
    """One command in a terminal of its own, to which a user types; keys wait for a program that does not read."""

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
        self._keys = bytearray()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._again: asyncio.TimerHandle | None = None

    def type(self, text: str, size: TerminalSize | None = None) -> None:
        """Keys that were pressed, and the size of the window if it is another; from any thread."""
        data = text.encode()
        with self._lock:
            if self._terminal is None or self._loop is None:
                raise ConflictError("the command has not begun or is over", "a command that runs", "Start another")
            if len(self._keys) + len(data) > _MOST_KEYS:
                raise ConflictError(
                    f"the program in this terminal does not read: {len(self._keys)} bytes of keys wait for it",
                    f"at most {_MOST_KEYS}", "Type again once it reads, or end the command",
                )  # fmt: skip
            if size is not None:
                _set_size(self._terminal, size)
            self._keys += data
            self._loop.call_soon_threadsafe(self._pass_on)

    def end(self) -> None:
        super().end()
        with self._lock:
            if self._terminal is not None:
                os.close(self._terminal)
                self._terminal = None

    def _pass_on(self) -> None:
        """Write the keys that the terminal takes now, and the others a little later."""
        if self._again is not None:
            self._again.cancel()
        with self._lock:
            try:
                while self._keys and self._terminal is not None:
                    del self._keys[: os.write(self._terminal, self._keys[:_KEYS_AT_ONCE])]
            except BlockingIOError:
                self._again = asyncio.get_running_loop().call_later(_KEYS_AGAIN_S, self._pass_on)
            except OSError:  # the last process that had the terminal open is gone
                self._keys.clear()

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
            os.set_blocking(terminal, False)
            _set_size(terminal, self._size)
            if user is not None:
                os.fchown(inside, user.uid, -1)
            process = await self._started(inside, terminal=True)
        except BaseException:
            os.close(terminal)
            raise
        finally:
            os.close(inside)
        self._loop, self._terminal = asyncio.get_running_loop(), terminal
        return process


def _set_size(terminal: int, size: TerminalSize) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))
