"""An engine for tests: parts are worker hosts that are started as processes of this machine, on machines that it plays.

Its settings name, for each node, the words to put before a host's command: ``ip netns exec NODE`` for a node that is a
network namespace, nothing for one that is this machine.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from penstock.backends.agent.background_tasks import BackgroundTasks
from penstock.backends.agent.parts import HOST_COMMAND, Part, PartEnd, PartFate, PartListener, PartRun
from penstock.tools import write_atomically

WAITING_NODE = "queue"
"""A node on which nothing ever starts."""
REFUSED_NODE = "refused"
"""A node that the engine does not know."""


class ProcessParts:
    """A :class:`~penstock.backends.agent.parts.PartLauncher` without an engine."""

    def __init__(self, run: PartRun, listener: PartListener) -> None:
        self._run = run
        self._listener = listener
        self._prefixes: Mapping[str, Sequence[str]] = run.settings.get("prefixes", {})
        self._folder = run.directory / "parts"
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._tasks = BackgroundTasks()

    async def clear(self) -> None:
        for file in self._folder.glob("*.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGKILL)
            file.unlink()

    async def create(self, part: Part) -> None:
        if part.name in self._processes:
            return
        if part.worker.node == REFUSED_NODE:
            self._listener.on_part_ended(part.name, PartEnd(fate=PartFate.REFUSED, words="there is no such node"))
            return
        if part.worker.node == WAITING_NODE:
            self._listener.on_part_waiting(part.name, "(Resources)")
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        secret_file = self._folder / f"{part.name}.secret"
        write_atomically(secret_file, part.secret, mode=0o600)
        own = {**part.host_environment(), "PENSTOCK_SECRET_FILE": str(secret_file)}
        argv = [*self._prefixes.get(part.worker.node, ()), *HOST_COMMAND]
        with (self._folder / f"{part.name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *argv, env={**os.environ, **own}, cwd="/", stdout=log, stderr=log, stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        self._processes[part.name] = process
        write_atomically(self._folder / f"{part.name}.pid", str(process.pid))
        self._listener.on_part_created(part.name, f"process {process.pid}")
        self._tasks.start(self._watch(part.name, process))

    async def delete(self, name: str, grace_s: float) -> None:
        if (process := self._processes.get(name)) is not None:
            with suppress(ProcessLookupError):
                process.terminate()
            self._tasks.start(self._kill_after(process, grace_s))

    async def close(self) -> None:
        await asyncio.gather(*(self._kill_after(process, 1.0) for process in self._processes.values()))

    async def _watch(self, name: str, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        self._processes.pop(name, None)
        fate = PartFate.EXITED if code >= 0 else PartFate.DELETED
        self._listener.on_part_ended(name, PartEnd(fate=fate, words=f"the host ended with {code}"))

    async def _kill_after(self, process: asyncio.subprocess.Process, grace_s: float) -> None:
        try:
            await asyncio.wait_for(process.wait(), grace_s)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
