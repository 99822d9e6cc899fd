"""Starts workers, carries their output and notices their end.

Python scripts that import torch come from the zygote, everything else is a process of its own; either way it is a child
of this process. How a worker was started makes no difference to anyone else: both ways lead to ``started`` and then
exactly one ``exited``. Only a worker that is asked to end while the zygote is still busy with its imports never starts:
its ``exited`` comes at once, and should the zygote fork it all the same, the fork is ended.
"""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from penstock.backends.agent import processes
from penstock.backends.agent.containers import ContainerLaunch
from penstock.backends.agent.environment import Script, find_script, job_python, named_python, wants_torch
from penstock.backends.agent.missing_packages import absence_hint, closed_packages
from penstock.backends.agent.outputs import OutputSink, Stream, WorkerOutput, worker_directory
from penstock.backends.agent.processes import SHORTAGES
from penstock.backends.agent.run_limits import RunLimits
from penstock.backends.agent.side_processes import SideEnd, SideProcesses
from penstock.backends.agent.states import Exit
from penstock.backends.agent.zygote_client import Event, ZygoteClient
from penstock.core import STACK_SIGNAL, Launch, ModuleCall
from penstock.tools import acting_as

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""What shells return for a command that does not exist, or cannot be run."""

SWEEP_S = 5.0
"""How long to insist on the end of processes that were killed; one that hangs in the kernel cannot be helped."""

MOST_TRIES = 60
"""How often a worker is tried that the machine has no process or memory for: five minutes, all together."""
_LONGEST_PAUSE_S = 5

LINGER_S = 0.02
"""How often to look whether what a shell ran has ended."""

DROPPED = (128 + signal.SIGTERM, int(signal.SIGTERM))
"""How a worker ended that was asked to before it had started."""


class Listener(Protocol):
    """Who wants to know about workers."""

    def on_started(self, worker_id: str, pid: int) -> None: ...

    def on_exited(self, worker_id: str, how: Exit) -> None: ...


@dataclass(slots=True)
class Process:
    """A worker's process; ``pid`` is not known until the zygote has told it, under the ``key`` it was asked with.

    ``container`` is what its container is called, in a run that has one. One that has a ``command`` of its own
    holds no device; what others left behind is cleared away around it and what it started, until it is ``killed``.
    """

    worker_id: str
    key: str
    env: Mapping[str, str]
    output: WorkerOutput
    container: str = ""
    command: tuple[str, ...] = ()
    pid: int | None = None
    asked: bool = False
    killed: bool = False
    tries: int = 0
    handle: "subprocess.Popen[bytes] | None" = None


class Spawner:
    """All processes of one run here; their pipes lie below ``directory``, and they are started as ``identity`` says."""

    def __init__(
        self,
        directory: Path,
        launch: Launch,
        base_env: Mapping[str, str],
        output: OutputSink,
        listener: Listener,
        identity: processes.Identity = processes.OURSELVES,
    ) -> None:
        self._output = output
        self._directory = directory
        self._limits = RunLimits.of(launch, directory)
        self._identity = replace(identity, group=self._limits.group)
        self._beside = SideProcesses(identity)
        self._run_id = launch.run_id
        self._container = ContainerLaunch.of(launch, identity.user)
        self._command = launch.command
        self._is_shell = processes.is_shell(launch.command)
        self._cwd = launch.working_dir
        self._base_env = base_env
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._processes: dict[str, Process] = {}
        self._numbers = itertools.count()
        self._zygote: ZygoteClient | None = None
        if complaint := self._limits.complaint:
            output.remark(complaint)
        self._script = None if self._container else find_script(launch.command, base_env)
        self._use_zygote = self._script is not None and wants_torch(self._script, launch.working_dir, identity.user)
        self._explained: set[str] = set()
        if self._use_zygote and (closed := closed_packages(self._python, base_env, identity.user)):
            self._explained.add(closed)
            output.remark(closed)

    def spawn(self, worker_id: str, rank: int, env: Mapping[str, str], command: tuple[str, ...] = ()) -> None:
        """Start a worker, by the run's command or one of its own; the listener hears the rest."""
        sink = self._output.open(worker_id, rank)
        output = WorkerOutput(worker_directory(self._directory, worker_id), sink, self._identity.user)
        number = next(self._numbers)
        process = self._processes[worker_id] = Process(
            worker_id, f"{worker_id}#{number}", env, output, f"{self._run_id}.{worker_id}.{os.getpid()}.{number}",
            command,
        )  # fmt: skip
        for stream in output.streams:
            self._loop.add_reader(stream.handle, self._read, output, stream)
        self._hold_limits()
        self._fork(process) if self._use_zygote and not command else self._execute(process)

    async def run_beside(self, call: ModuleCall, env: Mapping[str, str]) -> SideEnd:
        """Run a module with the job's own Python and environment, or with ours and nothing of the job's."""
        words = ("-P", "-m", call.module, *call.words)
        if call.own:
            ours = {**os.environ, "PENSTOCK_NODE": env["PENSTOCK_NODE"], "PENSTOCK_RUN_DIR": str(self._directory)}
            return await self._beside.run([sys.executable, *words], ours, self._own_place())
        if self._container is None:
            return await self._beside.run([job_python(self._command, env), *words], env, self._cwd)
        name = f"{self._run_id}.check.{os.getpid()}.{next(self._numbers)}"
        argv, around = self._container.command(name, [named_python(self._command), *words], env)
        try:
            return await self._beside.run(argv, around, self._cwd)
        except asyncio.CancelledError:
            self._container.remove(name)
            raise

    def _own_place(self) -> str:
        """The job's working directory; one that cannot be entered is the worker's failure, not that of its node."""
        with acting_as(self._identity.user):
            return self._cwd if os.path.isdir(f"{self._cwd}/.") else tempfile.gettempdir()

    @property
    def limits(self) -> RunLimits:
        """What all of them may use together."""
        return self._limits

    @property
    def worker_ids(self) -> tuple[str, ...]:
        """Workers that have been asked for and have not ended."""
        return tuple(self._processes)

    def set_rank(self, worker_id: str, rank: int) -> None:
        """Later lines of a worker carry its new rank; its world may have fewer workers than before."""
        if process := self._processes.get(worker_id):
            process.output.log.rank = rank
        self._hold_limits()

    def _hold_limits(self) -> None:
        """Limits are for each device."""
        self._limits.hold(sum(not process.command for process in self._processes.values()))

    def terminate(self, worker_id: str) -> None:
        process = self._processes.get(worker_id)
        if process and process.pid:
            process.asked = True
            processes.terminate(process.pid, whole_group=self._is_whole_group(process))
        elif process:
            self._gone(process, *DROPPED)

    def kill(self, worker_id: str) -> None:
        process = self._processes.get(worker_id)
        if process and process.pid:
            process.killed = True
            processes.kill_tree(process.pid)
            processes.kill_group(process.pid)
        elif process:
            self._gone(process, *DROPPED)

    def dump_stacks(self, worker_id: str) -> None:
        """Send the signal on which our library writes stacks; the process of a container is not the worker's own."""
        process = self._processes.get(worker_id)
        if process and process.pid and self._container is None and processes.catches(process.pid, STACK_SIGNAL):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, STACK_SIGNAL)

    def sweep(self) -> None:
        """Kill what the workers left behind; the zygote stays warm, and a worker without a device is at work."""
        keep = frozenset({self._zygote.process.pid} if self._zygote else ())
        at_work = frozenset(
            each.pid for each in self._processes.values() if each.command and each.pid and not each.killed
        )
        deadline = self._loop.time() + SWEEP_S
        while processes.kill_below(os.getpid(), keep, at_work) and self._loop.time() < deadline:
            time.sleep(0.005)
            self._reap_strays()

    def reap(self) -> None:
        """Children have ended: workers, the zygote, or orphans that came to us."""
        if self._zygote:
            self._hear_zygote(self._zygote)  # it tells of a worker before that runs, so it is known by its end
        while (pid := self._next_dead()) is not None:
            owner = next((p for p in self._processes.values() if p.pid == pid), None)
            lingers = owner is not None and owner.asked and self._is_whole_group(owner)
            if owner and not lingers:
                processes.kill_group(pid)  # while its pid cannot be another's
            _, status = os.waitpid(pid, 0)
            if owner and lingers:
                self._linger(owner, *processes.exit_code(status))
            elif owner:
                self._gone(owner, *processes.exit_code(status))
            elif self._zygote and pid == self._zygote.process.pid:
                self._zygote.process.returncode = os.waitstatus_to_exitcode(status)
                self._lose_zygote(self._zygote)
            else:
                self._beside.ended(pid, status)

    def close(self) -> None:
        """Let the zygote go; no worker is left."""
        if self._zygote:
            self._loop.remove_reader(self._zygote.output)
            self._zygote.quit()
            self._zygote.process.wait()
        self._limits.end()

    def _execute(self, process: Process) -> None:
        argv, env = self._words_of(process)
        out, err = (os.open(stream.fifo, os.O_WRONLY | os.O_CLOEXEC) for stream in process.output.streams)
        try:
            process.handle = processes.start_process(argv, env, self._cwd, subprocess.DEVNULL, out, err, self._identity)
        except OSError as error:
            if error.errno in SHORTAGES and process.tries < MOST_TRIES:
                self._try_later(process, error)
            else:
                self._loop.call_soon(self._could_not_start, process, argv[0], error)
        else:
            process.pid = process.handle.pid
            self._loop.call_soon(self._listener.on_started, process.worker_id, process.pid)
        finally:
            os.close(out)
            os.close(err)

    def _is_whole_group(self, process: Process) -> bool:
        """Whether what it started gets its signals too: of a shell, and of one that runs commands."""
        return self._is_shell or bool(process.command)

    def _words_of(self, process: Process) -> tuple[list[str], Mapping[str, str]]:
        """The command of a worker and the environment it is started in."""
        command = process.command or self._command
        if self._container is not None:
            return self._container.command(process.container, command, process.env)
        if self._script is not None and not process.command:
            return [self._script.interpreter, *self._script.argv], process.env
        return list(command), process.env

    def _try_later(self, process: Process, error: OSError) -> None:
        """The machine is short of processes or memory: no fault of the worker, which waits for better times."""
        process.tries += 1
        self._output.remark(f"worker {process.worker_id} cannot be started now ({error.strerror}); trying again")
        self._loop.call_later(min(process.tries, _LONGEST_PAUSE_S), self._execute_again, process)

    def _execute_again(self, process: Process) -> None:
        if self._processes.get(process.worker_id) is process:
            self._execute(process)

    def _could_not_start(self, process: Process, program: str, error: OSError) -> None:
        if self._processes.get(process.worker_id) is not process:
            return  # dropped meanwhile
        missing = isinstance(error, FileNotFoundError)
        where = f" (working directory {self._cwd!r})" if error.filename == self._cwd else ""
        user = self._identity.user
        closed = isinstance(error, PermissionError) and user is not None and not where
        what_next = f" for the user {user.name}: name a program that every user may start" if user and closed else ""
        process.output.log.note(f"penstock: cannot start {program!r}{where}: {error.strerror}{what_next}")
        self._gone(process, NOT_FOUND if missing else NOT_EXECUTABLE, None)

    def _fork(self, process: Process) -> None:
        zygote, script = self._warm(), self._script
        if zygote is None or script is None:
            self._execute(process)
            return
        out, err = (str(stream.fifo) for stream in process.output.streams)
        zygote.fork(process.key, list(script.argv), process.env, self._cwd, out, err)

    def _warm(self) -> ZygoteClient | None:
        if self._zygote is None and self._script is not None:
            self._zygote = self._start_zygote(self._script)
        return self._zygote

    def _start_zygote(self, script: Script) -> ZygoteClient | None:
        try:
            zygote = ZygoteClient(script.interpreter, self._base_env, str(self._directory), 2, self._identity)
        except OSError:
            self._use_zygote = False
            return None
        self._loop.add_reader(zygote.output, self._hear_zygote, zygote)
        return zygote

    def _hear_zygote(self, zygote: ZygoteClient) -> None:
        if not zygote.receive(self._on_zygote_event):
            self._loop.remove_reader(zygote.output)

    def _on_zygote_event(self, event: Event) -> None:
        process = next((p for p in self._processes.values() if p.key == event.get("id")), None)
        if event.get("event") == "started":
            self._forked(process, int(event["pid"]))
        elif event.get("event") == "error" and process:
            self._execute(process)

    def _forked(self, process: Process | None, pid: int) -> None:
        if pid < 1 or (processes.is_known(pid) and not processes.is_child_of(pid, os.getpid())):
            return  # the zygote is the job's own process: it may name another process, a group or all processes (0, -1)
        if process is None:
            processes.kill_tree(pid)  # it was not wanted any more
            return
        process.pid = pid
        self._listener.on_started(process.worker_id, pid)
        if not processes.is_known(pid):
            self._gone(process, 128 + signal.SIGKILL, signal.SIGKILL)  # killed before it was told, reaped as a stray

    def _lose_zygote(self, zygote: ZygoteClient) -> None:
        """Those it never started get a process of their own."""
        zygote.receive(self._on_zygote_event)
        self._loop.remove_reader(zygote.output)
        zygote.bury()
        self._zygote, self._use_zygote = None, False
        for process in list(self._processes.values()):
            if process.pid is None:
                self._execute(process)

    def _linger(self, process: Process, code: int, by: int | None) -> None:
        """A shell that was asked to end is gone at once; what it ran still has its grace."""
        if process.pid and processes.group_exists(process.pid):
            self._loop.call_later(LINGER_S, self._linger, process, code, by)
        else:
            self._gone(process, code, by)

    def _gone(self, process: Process, code: int, by: int | None) -> None:
        del self._processes[process.worker_id]
        if process.handle is not None:
            process.handle.returncode = code
        if self._container is not None and by is not None:
            self._container.remove(process.container)
        for stream in process.output.streams:
            self._loop.remove_reader(stream.handle)
        process.output.close()
        if code != 0 and self._container is None:
            self._explain_absence(process)
        reason = self._limits.reached() if code != 0 else ""
        self._listener.on_exited(process.worker_id, Exit(code, by, process.output.log.tail(), reason))

    def _explain_absence(self, process: Process) -> None:
        """Say what to install where the worker found no PyTorch, in the log once and as each worker's last word."""
        log, python = process.output.log, self._python
        if hint := absence_hint(log.tail(), python, process.env, self._identity.user):
            log.note(f"penstock: {hint}")
            if hint not in self._explained:
                self._explained.add(hint)
                self._output.remark(hint)

    @property
    def _python(self) -> str:
        return self._script.interpreter if self._script else job_python(self._command, self._base_env)

    def _read(self, output: WorkerOutput, stream: Stream) -> None:
        output.read(stream)

    def _next_dead(self) -> int | None:
        with suppress(ChildProcessError):
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return found.si_pid if found else None
        return None

    def _reap_strays(self) -> None:
        keep = self._zygote.process.pid if self._zygote else None
        while (pid := self._next_dead()) is not None and pid != keep:
            self._beside.ended(*os.waitpid(pid, 0))
