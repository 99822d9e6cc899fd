"""The process that starts one worker of a run on another machine than the run's agent.

``python -m penstock.backends.agent.worker_host`` finds its agent and its secret in its environment (see
:class:`~penstock.backends.agent.parts.Part`), is told what to start, and passes on what the worker prints, uses and
ends with. Nothing but the standard library and this package is imported, so a host is there within a moment.

Its own SIGTERM means that the part is being taken away (a drain, a preemption, a cancelled batch job): the agent is
told how much time is left, so that the others can go on without the worker or all can save; half of the time later the
worker gets the signal, and at the end of it everything is killed. The same happens to a worker whose agent cannot be
found for :data:`AWAY_S` seconds: somebody else may have been started in its place by then.
"""

import asyncio
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from penstock.backends.agent import processes
from penstock.backends.agent.environment import RunPaths, base_environment, free_port
from penstock.backends.agent.host_line import HostLine
from penstock.backends.agent.host_output import ForwardedOutput
from penstock.backends.agent.memory_place import give_memory_back
from penstock.backends.agent.part_messages import (
    EndOrder,
    FileProgress,
    HostLeaving,
    HostOrder,
    HostReady,
    HostUsage,
    ModuleDrop,
    ModuleEnded,
    ModuleOrder,
    SignalOrder,
    StartOrder,
    WorkerBegan,
    WorkerEnded,
)
from penstock.backends.agent.plan_file import with_plan_path, write_plan
from penstock.backends.agent.progress import ProgressFile
from penstock.backends.agent.spawner import Spawner
from penstock.backends.agent.states import Exit
from penstock.backends.agent.subreaper import run_below_subreaper
from penstock.backends.agent.usage import UsageMeter, held_by
from penstock.core import NO_LIMITS, AgentAddress, Hello, Launch, ModuleCall, Refusal, is_url
from penstock.tools import write_atomically

_log = logging.getLogger(__name__)

AWAY_S = 30.0
"""How long a worker runs on without its agent."""
ALONE = 75
"""The code of a host that has not found its agent: EX_TEMPFAIL of sysexits."""
REFUSED = 77
"""The code of a host that its agent does not know (any more): EX_NOPERM of sysexits."""
_TICK_S = 0.5
_USAGE_EVERY_S = 2.0
_LAST_WORDS_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlace:
    """What an engine has told the host."""

    agent: AgentAddress
    part: str
    worker: str
    grace_s: float
    secret: str = field(repr=False)

    @classmethod
    def taken_from_environment(cls) -> "HostPlace":
        """Reads the environment, and takes the secret out of it: whoever is started from here has no use for it."""
        secret = os.environ.pop("PENSTOCK_SECRET", "")
        if file := os.environ.get("PENSTOCK_SECRET_FILE"):
            secret = Path(file).read_text().strip()
        return cls(
            agent=AgentAddress.parse(os.environ["PENSTOCK_AGENT"]),
            part=os.environ["PENSTOCK_PART"],
            worker=os.environ["PENSTOCK_WORKER"],
            grace_s=float(os.environ.get("PENSTOCK_GRACE_S", "30")),
            secret=secret,
        )


class WorkerHost:
    """One worker at a time; a worker that is restarted finds its host, and what that has imported, again."""

    def __init__(self, place: HostPlace, directory: Path) -> None:
        self._place = place
        self._paths = RunPaths(
            directory=directory, checkpoints=directory / "job" / "checkpoints", progress=directory / "job" / "progress",
            plan=directory / "plan.json",
        )  # fmt: skip
        self._secret_file = directory / "secret"
        self._loop = asyncio.get_running_loop()
        hello = Hello(worker=place.worker, pid=os.getpid(), elastic=False, secret=place.secret, part=place.part)
        self._line = HostLine(place.agent, hello, self._ready, self._hear)
        self._output = ForwardedOutput(self._line.tell_output)
        self._progress = ProgressFile(self._paths.progress)
        self._meter = UsageMeter(os.getpid())
        self._environment: dict[str, str] = {}
        self._spawner: Spawner | None = None
        self._launch: Launch | None = None
        self._start = 0
        self._modules: dict[int, asyncio.Task[None]] = {}
        self._running = False
        self._leaving = False
        self._told_usage_at = 0.0
        self._over: asyncio.Future[int] = self._loop.create_future()

    async def run(self) -> int:
        """Serve the agent until it or the engine says that this is over; returns the exit code."""
        self._loop.add_signal_handler(signal.SIGTERM, self._leave)
        write_atomically(self._secret_file, self._place.secret, mode=0o600)
        self._paths.progress.parent.mkdir(parents=True, exist_ok=True)
        talking = self._loop.create_task(self._line.keep())
        while not self._over.done():
            await asyncio.wait([self._over], timeout=_TICK_S)
            self._tick()
        self._kill()
        self._output.flush()
        await self._line.settle(_LAST_WORDS_S)
        talking.cancel()
        return self._over.result()

    # --- orders -------------------------------------------------------------------------------------------------------

    def _ready(self, address: str) -> HostReady:
        return HostReady(address=address, port=free_port(), start=self._start)

    def _hear(self, order: HostOrder) -> None:
        match order:
            case StartOrder() if order.start > self._start and not self._leaving:
                self._begin(order)
            case SignalOrder() if order.start == self._start and self._running and self._spawner:
                end = self._spawner.kill if order.kill else self._spawner.terminate
                end(self._place.worker)
            case ModuleOrder() if order.call not in self._modules and not (self._running or self._leaving):
                self._modules[order.call] = self._loop.create_task(self._run_module(order))
            case ModuleDrop() if order.call in self._modules:
                self._modules[order.call].cancel()
            case EndOrder():
                self._finish(0)
            case Refusal():
                _log.error("the agent refused this host: %s", order.reason)
                self._finish(REFUSED)
            case _:
                pass

    def _begin(self, order: StartOrder) -> None:
        self._start, self._running = order.start, True
        for plan in order.launch.plans:
            write_plan(self._paths.plan, order.launch, plan.devices)
        files = {name: self._kept_file(name, text) for name, text in order.files}
        spawner = self._spawner_for(with_plan_path(order.launch, self._paths.plan))
        self._environment = {
            **self._base(order.launch), **dict(order.variables), **files,
            "PENSTOCK_AGENT": str(self._place.agent), "PENSTOCK_SECRET_FILE": str(self._secret_file),
        }  # fmt: skip
        with suppress(OSError):
            if not is_url(order.launch.checkpoint_dir):
                Path(order.launch.checkpoint_dir or self._paths.checkpoints).mkdir(parents=True, exist_ok=True)
        without_device = order.launch.cpu_worker
        command = () if without_device is None else without_device.command
        spawner.spawn(self._place.worker, 0, self._environment, command)

    async def _run_module(self, order: ModuleOrder) -> None:
        """With what the worker will have around it, but for its files and its line."""
        call = ModuleCall(node=self._place.worker, module=order.module, words=order.words, own=order.own)
        env = {**self._base(order.launch), **dict(order.variables), "PENSTOCK_NODE": order.node}
        ended = await self._spawner_for(order.launch).run_beside(call, env)
        self._line.tell(lambda seq: ModuleEnded(seq=seq, call=order.call, code=ended.code, output=ended.output))

    def _spawner_for(self, launch: Launch) -> Spawner:
        if self._spawner is None or launch != self._launch:
            if self._spawner is not None:
                self._spawner.close()
            self._launch = launch
            within = replace(launch, limits=NO_LIMITS)  # the engine's own
            self._spawner = Spawner(self._paths.directory, within, self._base(launch), self._output, self)
            self._loop.add_signal_handler(signal.SIGCHLD, self._spawner.reap)
        return self._spawner

    def _base(self, launch: Launch) -> dict[str, str]:
        return base_environment(os.environ, launch, self._paths)

    def _kept_file(self, name: str, text: str) -> str:
        path = self._paths.directory / "secrets" / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomically(path, text, mode=0o400)
        return str(path)

    # --- what happens to the worker -----------------------------------------------------------------------------------

    def on_started(self, worker_id: str, pid: int) -> None:  # noqa: ARG002
        start = self._start
        self._line.tell(lambda seq: WorkerBegan(seq=seq, start=start, pid=pid))

    def on_exited(self, worker_id: str, how: Exit) -> None:  # noqa: ARG002
        if self._spawner is not None:
            self._spawner.sweep()
        self._output.flush()
        self._tell_usage()
        start, self._running = self._start, False
        self._line.tell(lambda seq: WorkerEnded(seq=seq, start=start, code=how.code, signal=how.signal, tail=how.tail))
        if self._leaving:
            self._finish(0)

    # --- time and the end ---------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        away_s = self._loop.time() - self._line.heard_at
        if away_s > AWAY_S and not self._leaving:
            _log.error("the agent at %s was not heard of for %g s: the worker ends", self._place.agent, away_s)
            self._leave(ALONE)
        if said := self._progress.news():
            self._line.mention(FileProgress(**said))
        if self._loop.time() - self._told_usage_at >= _USAGE_EVERY_S:
            self._tell_usage()

    def _tell_usage(self) -> None:
        self._told_usage_at = self._loop.time()
        self._line.mention(HostUsage(usage=self._meter.sample(held_by([self._environment]))))

    def _leave(self, code: int = 0) -> None:
        """The part is being taken away, or nobody wants it any more."""
        if self._leaving:
            return
        self._leaving = True
        grace_s = self._place.grace_s
        self._line.tell(lambda seq: HostLeaving(seq=seq, within_s=grace_s, words=f"{socket.gethostname()}: SIGTERM"))
        if not self._running:
            self._finish(code)
            return
        self._loop.call_later(grace_s / 2 if self._line.connected else 0.0, self._terminate)
        self._loop.call_later(grace_s * 0.9, self._finish, code)

    def _terminate(self) -> None:
        if self._running and self._spawner is not None:
            self._spawner.terminate(self._place.worker)

    def _kill(self) -> None:
        if self._spawner is not None:
            self._loop.remove_signal_handler(signal.SIGCHLD)
            self._spawner.kill(self._place.worker)
            self._spawner.sweep()
            self._spawner.reap()
            self._spawner.close()

    def _finish(self, code: int) -> None:
        if not self._over.done():
            self._over.set_result(code)


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="penstock: %(message)s")
    os.umask(0o077)
    place = HostPlace.taken_from_environment()
    directory = Path(tempfile.mkdtemp(prefix="penstock-"))
    return run_below_subreaper(
        lambda: _run(place, directory),
        forwarded=(signal.SIGTERM,),
        at_end=lambda: _leave_nothing(directory),
    )


def _leave_nothing(directory: Path) -> None:
    give_memory_back(directory)
    shutil.rmtree(directory, ignore_errors=True)


def _run(place: HostPlace, directory: Path) -> int:
    processes.die_with_parent()
    processes.become_subreaper()
    return asyncio.run(_serve(place, directory))


async def _serve(place: HostPlace, directory: Path) -> int:
    return await WorkerHost(place, directory).run()


if __name__ == "__main__":
    sys.exit(main())
