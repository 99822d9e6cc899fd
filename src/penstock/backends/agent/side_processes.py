"""Processes that an agent or a host runs beside its workers and whose output it wants: checks of a node.

They are told of their end by whoever waits for the children of this process, because that takes every child's status.
"""

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.backends.agent import processes
from penstock.backends.agent.processes import Identity

MOST_OUTPUT = 256 << 10
"""Bytes of the end of what a process said that are kept."""
NOT_STARTED = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class SideEnd:
    """How such a process ended, and the end of what it said."""

    code: int
    output: str


@dataclass(slots=True, kw_only=True)
class _SideProcess:
    handle: "subprocess.Popen[bytes]"
    pipe: int
    over: "asyncio.Future[SideEnd]"
    said: bytearray = field(default_factory=bytearray)

    def read(self) -> bool:
        """Take a piece of what is there; whether there was one."""
        try:
            piece = os.read(self.pipe, 1 << 16)
        except BlockingIOError:
            return False
        self.said += piece
        del self.said[:-MOST_OUTPUT]
        return bool(piece)


class SideProcesses:
    """All of them, by their pids; started as ``identity`` says."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._loop = asyncio.get_running_loop()
        self._running: dict[int, _SideProcess] = {}

    async def run(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> SideEnd:
        """Start a process and wait for its end; cancelled, it is killed."""
        ours, theirs = os.pipe()
        try:
            handle = processes.start_process(argv, env, cwd, subprocess.DEVNULL, theirs, theirs, self._identity)
        except OSError as error:
            os.close(ours)
            return SideEnd(code=NOT_STARTED, output=f"{argv[0]}: {error.strerror}")
        finally:
            os.close(theirs)
        os.set_blocking(ours, False)
        process = self._running[handle.pid] = _SideProcess(handle=handle, pipe=ours, over=self._loop.create_future())
        self._loop.add_reader(ours, self._read, process)
        try:
            return await process.over
        finally:
            if self._running.pop(handle.pid, None) is not None:
                processes.kill_tree(handle.pid)
            self._loop.remove_reader(ours)
            os.close(ours)

    def ended(self, pid: int, status: int) -> bool:
        """Hear that a child has ended; whether it was one of these."""
        process = self._running.pop(pid, None)
        if process is None:
            return False
        code, _ = processes.exit_code(status)
        process.handle.returncode = code
        while process.read():
            pass
        if not process.over.done():
            process.over.set_result(SideEnd(code=code, output=process.said.decode(errors="replace")))
        return True

    def _read(self, process: _SideProcess) -> None:
        if not process.read():
            self._loop.remove_reader(process.pipe)
