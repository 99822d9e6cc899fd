"""The process beside a run of this machine: it starts the workers, listens to them and to servers, and writes down
what happens.

``python -m penstock.backends.runs.agent RUN_DIR`` runs in the foreground; with ``--detach`` it lives in its own
session and outlasts whoever started it. One thread, one event loop; no torch. All decisions are the
:class:`~penstock.backends.agent.supervisor.Supervisor`'s; this carries them out. With ``--run-as USER`` the workers are
that user's processes and the agent stays whose it is: they can neither read what it writes nor tell it more than the
protocol knows.
"""

import argparse
import asyncio
import json
import os
import secrets as random
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.backends.agent import processes
from penstock.backends.agent.environment import MeetingPoint, base_environment, free_port, worker_environment
from penstock.backends.agent.meeting_stores import MeetingStores
from penstock.backends.agent.namespaces import hide_other_processes
from penstock.backends.agent.ownership import hand_over, let_through, own_directory
from penstock.backends.agent.plan_file import write_plan
from penstock.backends.agent.processes import OURSELVES, Identity
from penstock.backends.agent.progress import ProgressFile, ProgressRecorder, complaint, parse_line
from penstock.backends.agent.report_journal import ReportJournalWriter
from penstock.backends.agent.secrets import Mask, deliver
from penstock.backends.agent.spawner import Spawner
from penstock.backends.agent.states import Exit, Member, RunPhase, WorkerGroup
from penstock.backends.agent.supervisor import Supervisor
from penstock.backends.agent.usage import Held, UsageMeter
from penstock.backends.agent.worker_lines import WorkerLines
from penstock.backends.runs.device_locks import DeviceLocks
from penstock.backends.runs.requests import (
    ANSWERS,
    REQUESTS,
    Answer,
    PingRequest,
    Request,
    ResizeRequest,
    StopRequest,
    SuspendRequest,
    UsageRequest,
)
from penstock.backends.runs.rundir import (
    REQUESTS_SOCKET,
    WORKERS_SOCKET,
    RunDir,
    discard_sockets,
    hold_lock,
    socket_directory,
)
from penstock.backends.runs.subreaper import run_below_subreaper
from penstock.core import (
    LONGEST_LINE,
    AgentAddress,
    AgentMessage,
    Bye,
    CheckpointFailed,
    CheckpointSaved,
    DeviceSlot,
    Hello,
    Joined,
    Launch,
    Met,
    PenstockError,
    Ready,
    ReportKind,
    RunState,
    StateSuspended,
    TrainingProgress,
    Worker,
    WorkerMessage,
    World,
    is_url,
    plain,
)
from penstock.tools import SteadyClock, UnixUser, acting_as, write_atomically

TICK_S = 0.1
METER_EVERY_S = 5.0
"""How often energy is added up when nobody asks."""
LOOPBACK = "127.0.0.1"


class Agent:
    """One run from its first process to its last report."""

    def __init__(
        self,
        run_dir: RunDir,
        launch: Launch,
        listen: AgentAddress | None = None,
        identity: Identity = OURSELVES,
        secrets: Mapping[str, str] | None = None,
        clock_offset: float | None = None,
    ) -> None:
        self._run_dir = run_dir
        self._launch = launch
        self._user = identity.user
        self._sockets = socket_directory(run_dir.path, self._user)
        self._address = listen or AgentAddress(path=str(self._sockets / WORKERS_SOCKET))
        self._clock = SteadyClock(offset=clock_offset)
        self._journal = ReportJournalWriter(run_dir.journal, launch.run_id, self._clock)
        inherited = {**os.environ, **(self._user.variables if self._user else {})}
        delivered = deliver(launch.secrets, secrets or {}, run_dir.secrets, self._user)
        self._base_env = {**base_environment(inherited, launch, run_dir.paths), **delivered}
        self._meter = UsageMeter(os.getpid(), run_dir.usage)
        self._metered_at = time.monotonic()
        self._locks = DeviceLocks(run_dir.devices)
        self._supervisor = Supervisor(launch, self)
        self._spawner = Spawner(run_dir.path, launch, self._base_env, self, identity, Mask((secrets or {}).values()))
        self._stores = MeetingStores()
        self._lines = WorkerLines(_new_secret(run_dir, self._user), self._stores, hear=self._hear, doubt=self._doubt)
        self._progress = ProgressRecorder(self._record_progress)
        self._progress_file = ProgressFile(run_dir.progress)
        self._ports: dict[int, int] = {}
        self._told_state: RunState | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Listen, start the workers, and stay until the last report is on the disk."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._spawner.reap)
        loop.add_signal_handler(signal.SIGTERM, self._supervisor.stop, self._launch.grace_s, "signal")
        self._address = await self._lines.listen(self._address)
        if self._address.path:
            hand_over(Path(self._address.path), self._user)
        requests = self._sockets / REQUESTS_SOCKET
        server = await asyncio.start_unix_server(self._serve, path=requests, limit=LONGEST_LINE)
        self.report(ReportKind.LAUNCHED, pid=os.getpid())
        about = {"pid": os.getpid(), "started_at": self._clock(), "socket": str(requests)}
        write_atomically(self._run_dir.agent_file, json.dumps(about), durable=True)
        self._supervisor.start()
        while self._supervisor.phase is not RunPhase.OVER or not self._journal.settled:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), TICK_S)
            self._ended.clear()
            self._tick()
        server.close()
        self._close()

    # --- host of the supervisor ---------------------------------------------------------------------------------------

    def now(self) -> float:
        return time.monotonic()

    def spawn(self, group: WorkerGroup, worker: Worker, restarts: int) -> None:
        meeting = MeetingPoint(
            agent=self._address, secret_file=self._run_dir.secret_file, master=LOOPBACK, port=self._port_of(group)
        )
        env = worker_environment(
            self._base_env, group, worker, meeting=meeting, restart_count=self._launch.attempt + restarts
        )
        self._locks.take(worker.id, worker.place)
        write_plan(self._run_dir.plan_file, self._launch, group.size)
        if self._launch.plans and self._run_dir.plan_file.exists():
            hand_over(self._run_dir.plan_file, self._user)
        self._spawner.spawn(worker.id, group.rank_of(worker.id), env)

    def terminate(self, member: Member) -> None:
        self._spawner.terminate(member.worker.id)

    def kill(self, member: Member) -> None:
        self._spawner.kill(member.worker.id)

    def send(self, worker_id: str, message: AgentMessage) -> None:
        if isinstance(message, World):
            self._spawner.set_rank(worker_id, message.rank)
        self._lines.send(worker_id, message)

    def report(self, kind: ReportKind, **said: Any) -> None:
        if kind in (ReportKind.FINISHED, ReportKind.FAILED, ReportKind.SUSPENDED, ReportKind.RESIZED):
            self._progress.flush()
        if kind is ReportKind.FAILED and not said.get("tail"):
            said["tail"] = self._spawner.tail()
        self._journal.append(kind, said)

    def sweep(self) -> None:
        self._spawner.sweep()

    def is_free(self, device: DeviceSlot) -> bool:
        return self._locks.is_free(device)

    def rendezvous(self, group: WorkerGroup) -> str:
        if not self._address.path:
            self._stores.open(group.generation)
            return "agent:"
        place = self._run_dir.rendezvous / f"{self._launch.attempt}-{group.generation}"
        own_directory(place.parent, self._user)
        place.unlink(missing_ok=True)
        return f"file:{place}"

    # --- what happens to processes ----------------------------------------------------------------------------------

    def on_started(self, worker_id: str, pid: int) -> None:
        self._meter_usage()  # what a worker uses is counted from its start to its end
        self._supervisor.started(worker_id, pid)

    def on_exited(self, worker_id: str, how: Exit) -> None:
        """Hear a worker out first: what it sent before it ended may still be on the line."""
        self._locks.release(worker_id)
        self._meter_usage()
        task = asyncio.get_running_loop().create_task(self._exited(worker_id, how))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def on_line(self, worker_id: str, stream: str, line: str) -> None:
        self._supervisor.sign_of_life()
        member = self._supervisor.members.get(worker_id)
        if stream != "stdout" or member is None or member.elastic or member.rank != 0:
            return
        said = parse_line(line)
        if said and said[0] is ReportKind.CHECKPOINTED:
            self._supervisor.checkpointed(said[1])
        elif said:
            self._progress.take(said[1])
        elif what := complaint(line):
            self._doubt(worker_id, what)

    def _doubt(self, worker_id: str, what: str) -> None:
        """Tell whoever reads the run's output, and count."""
        self._spawner.remark(f"ignored what worker {worker_id} said: {what}")
        self._supervisor.nonsense(f"worker {worker_id} said what cannot be: {what}")

    async def _exited(self, worker_id: str, how: Exit) -> None:
        await self._lines.last_words(worker_id)
        self._supervisor.exited(worker_id, how)
        self._ended.set()

    def _hear(self, worker_id: str, message: WorkerMessage) -> None:
        run = self._supervisor
        match message:
            case Hello():
                run.hello(worker_id, message.elastic)
            case Ready():
                run.ready(worker_id)
            case TrainingProgress():
                run.trained(worker_id)
                self._progress.take(plain(message))
            case Met():
                run.met(message.generation)
            case Joined():
                run.joined(message.generation, message.pause_s)
            case CheckpointSaved():
                run.checkpointed(_said(message))
            case CheckpointFailed():
                run.checkpoint_failed(_said(message))
            case StateSuspended():
                run.suspended(message.step)
            case Bye():
                run.bye(worker_id)

    # --- requests of servers -----------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(ANSWERS.encode(self._answer(line)))
                await writer.drain()
        except (OSError, ValueError):
            pass  # a line too long, or a peer that is gone: either way this connection is over
        finally:
            writer.close()

    def _answer(self, line: bytes) -> Answer:
        try:
            return self._obey(REQUESTS.decode(line))
        except PenstockError as error:
            return Answer(error=f"{type(error).__name__}: {error}")

    def _obey(self, request: Request) -> Answer:
        match request:
            case PingRequest():
                return Answer(state=self._supervisor.state)
            case ResizeRequest():
                self._supervisor.resize(request.generation, request.workers)
            case SuspendRequest():
                self._supervisor.suspend()
            case StopRequest():
                self._supervisor.stop(request.grace_s)
            case UsageRequest():
                return Answer(usage=self._meter.sample(self._held()))
        return Answer()

    def _held(self) -> Held:
        """A worker without a GPU occupies processor cores: as many as its slot has threads."""
        environments = [dict(member.worker.device_env) for member in self._supervisor.members.values()]
        gpus = [env["CUDA_VISIBLE_DEVICES"] for env in environments if "CUDA_VISIBLE_DEVICES" in env]
        threads = [int(env["OMP_NUM_THREADS"]) for env in environments if "OMP_NUM_THREADS" in env]
        return Held(gpus=tuple(dict.fromkeys(gpus)), threads=0 if gpus else sum(threads))

    # --- time ----------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if said := self._progress_file.news():
            self._supervisor.sign_of_life()
            self._progress.take(said)
        self._progress.flush_when_due()
        if time.monotonic() - self._metered_at >= METER_EVERY_S:
            self._meter_usage()
        self._journal.flush()
        self._supervisor.tick()
        self._tell_state()

    def _tell_state(self) -> None:
        """Leave the state where servers find it without asking."""
        if (state := self._supervisor.state) is not self._told_state:
            with suppress(OSError):
                write_atomically(self._run_dir.state_file, state.value)
                self._told_state = state

    def _meter_usage(self) -> None:
        self._metered_at = time.monotonic()
        self._meter.sample(self._held())
        self._meter.save()

    def _record_progress(self, said: dict[str, Any]) -> None:
        group = self._supervisor.world
        self._journal.append(ReportKind.PROGRESS, {**said, "width": group.size, "generation": group.generation})

    def _port_of(self, group: WorkerGroup) -> int:
        if group.generation not in self._ports:
            self._ports[group.generation] = free_port()
        return self._ports[group.generation]

    def _close(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)
        self._lines.close()
        self._spawner.close()
        self._spawner.sweep()
        self._journal.close()
        discard_sockets(self._sockets, self._run_dir.path)
        self._run_dir.secret_file.unlink(missing_ok=True)
        shutil.rmtree(self._run_dir.secrets, ignore_errors=True)


def main(argv: list[str] | None = None, secrets: Mapping[str, str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="penstock-agent", description="Run the workers of one run.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--detach", action="store_true", help="live on in a session of its own")
    parser.add_argument("--listen", type=AgentAddress.parse, help="where workers reach the agent: tcp://host:port")
    parser.add_argument("--run-as", type=UnixUser.named, help="whose processes the workers are")
    parser.add_argument("--clock-offset", type=float, help="what to add to the machine's clock for the server's time")
    parser.add_argument("--kept", action="store_true", help="below a process that ends what the agent leaves behind")
    parser.add_argument("--secrets", action="store_true", help="values of secrets by name, in JSON on standard input")
    options = parser.parse_args(argv)
    secrets = json.loads(sys.stdin.read()) if options.secrets else secrets or {}
    if options.detach and os.fork():
        os._exit(0)
    if options.detach:
        os.setsid()
    identity = Identity(options.run_as, os.umask(0o077))
    run_dir = RunDir(options.run_dir.resolve())
    if options.detach or options.kept:
        return run_below_subreaper(lambda: _run(run_dir, options.listen, identity, secrets, options.clock_offset))
    return _run(run_dir, options.listen, identity, secrets, options.clock_offset)


def _run(
    run_dir: RunDir,
    listen: AgentAddress | None,
    identity: Identity,
    secrets: Mapping[str, str],
    clock_offset: float | None,
) -> int:
    for unheeded in (signal.SIGINT, signal.SIGHUP):
        signal.signal(unheeded, _heed_not)
    lock = hold_lock(run_dir)
    if lock is None:
        return 0
    launch = run_dir.read_launch()
    if launch is None:
        sys.stderr.write(f"no launch.json in {run_dir.path}: nothing to run\n")
        return 2
    processes.become_subreaper()
    if identity.user is not None and not hide_other_processes():
        sys.stderr.write("workers see the machine's other processes: this kernel gives a run no view of its own\n")
    let_through(run_dir.path, identity.user)
    own_directory(run_dir.job, identity.user)
    run_dir.progress.unlink(missing_ok=True)
    if not is_url(launch.checkpoint_dir):
        with suppress(OSError), acting_as(identity.user):
            Path(launch.checkpoint_dir or run_dir.checkpoints).mkdir(parents=True, exist_ok=True)
    asyncio.run(_supervise(run_dir, launch, listen, identity, secrets, clock_offset))
    return 0


def _heed_not(_number: int, _frame: object) -> None:
    """A handler, because workers would inherit a signal that is ignored."""


async def _supervise(
    run_dir: RunDir,
    launch: Launch,
    listen: AgentAddress | None,
    identity: Identity,
    secrets: Mapping[str, str],
    clock_offset: float | None,
) -> None:
    await Agent(run_dir, launch, listen, identity, secrets, clock_offset).run()


def _new_secret(run_dir: RunDir, user: UnixUser | None) -> str:
    """What workers of this run know and nobody else: in a file that only their user can read."""
    secret = random.token_hex(32)
    write_atomically(run_dir.secret_file, secret, mode=0o600)
    hand_over(run_dir.secret_file, user)
    return secret


def _said(message: CheckpointSaved | CheckpointFailed) -> dict[str, Any]:
    return {name: value for name, value in plain(message).items() if value not in (None, "")}


if __name__ == "__main__":
    sys.exit(main())
