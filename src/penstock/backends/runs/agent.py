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
import logging
import os
import secrets as random
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.backends.agent import processes
from penstock.backends.agent.background_tasks import BackgroundTasks
from penstock.backends.agent.containers import remove_run
from penstock.backends.agent.environment import base_environment
from penstock.backends.agent.meeting_stores import MeetingStores
from penstock.backends.agent.metrics.event_file_watch import USUAL_DIRECTORIES, EventFileWatch
from penstock.backends.agent.metrics.metric_recorder import MetricRecorder
from penstock.backends.agent.metrics.run_metrics import RunMetrics
from penstock.backends.agent.namespaces import hide_other_processes
from penstock.backends.agent.outputs import RunLog
from penstock.backends.agent.ownership import hand_over, let_through, own_directory
from penstock.backends.agent.part_workers import PartWorkers
from penstock.backends.agent.parts import PartEngine, PartFate, PartRun
from penstock.backends.agent.processes import OURSELVES, Identity
from penstock.backends.agent.progress import ProgressFile, ProgressRecorder, complaint, parse_line
from penstock.backends.agent.report_journal import ReportJournalWriter
from penstock.backends.agent.run_limits import end_limited
from penstock.backends.agent.run_workers import ProcessWorkers, RunWorkers
from penstock.backends.agent.secrets import Mask, deliver, split
from penstock.backends.agent.states import Exit, Member, RunPhase, WorkerGroup
from penstock.backends.agent.subreaper import run_below_subreaper
from penstock.backends.agent.supervisor import Supervisor
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
    MetricsLogged,
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

_log = logging.getLogger(__name__)

TICK_S = 0.1
QUIET_S = 30.0
"""A run that has told no progress for so long is told how to, once, in its own log."""
METER_EVERY_S = 5.0
"""How often energy is added up when nobody asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """What a backend says to its agents: where to listen for workers, who starts them if not the agent, as whom."""

    listen: AgentAddress | None = None
    engine: PartEngine | None = None
    identity: Identity = OURSELVES
    clock_offset: float | None = None


class Agent:
    """One run from its first process to its last report."""

    def __init__(
        self,
        run_dir: RunDir,
        launch: Launch,
        options: AgentOptions,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self._run_dir = run_dir
        self._launch = launch
        self._user = options.identity.user
        self._sockets = socket_directory(run_dir.path, self._user)
        self._address = options.listen or AgentAddress(path=str(self._sockets / WORKERS_SOCKET))
        self._clock = SteadyClock(offset=options.clock_offset)
        self._journal = ReportJournalWriter(run_dir.journal, launch.run_id, self._clock)
        self._metered_at = time.monotonic()
        self._locks = DeviceLocks(run_dir.devices)
        self._supervisor = Supervisor(launch, self)
        self._output = RunLog(run_dir.path, self._on_line, Mask((secrets or {}).values()), self._clock)
        self._stores = MeetingStores()
        secret = _new_secret(run_dir, self._user)
        self._workers: RunWorkers
        serve_host = None
        if options.engine is None:
            self._workers = self._processes(options.identity, secrets or {})
        else:
            self._workers = parts = self._parts(options.engine, secret, secrets or {})
            serve_host = parts.serve
        self._lines = WorkerLines(secret, self._stores, hear=self._hear, doubt=self._doubt, host=serve_host)
        self._progress = ProgressRecorder(self._record_progress)
        self._progress_file = ProgressFile(run_dir.progress)
        self._metrics = self._run_metrics(is_local=options.engine is None)
        self._told_state = ""
        self._quiet_until: float | None = time.monotonic() + QUIET_S
        self._background = BackgroundTasks()
        self._ended = asyncio.Event()

    def _processes(self, identity: Identity, secrets: Mapping[str, str]) -> ProcessWorkers:
        inherited = {**os.environ, **(self._user.variables if self._user else {})}
        delivered = deliver(self._launch.secrets, secrets, self._run_dir.secrets, self._user)
        return ProcessWorkers(
            self._run_dir.path, self._launch,
            {**base_environment(inherited, self._launch, self._run_dir.paths), **delivered}, self._output, self,
            identity=identity, secret_file=self._run_dir.secret_file, plan_file=self._run_dir.plan_file,
            usage_file=self._run_dir.usage,
        )  # fmt: skip

    def _run_metrics(self, *, is_local: bool) -> RunMetrics:
        shared = [Path(self._launch.working_dir) / name for name in USUAL_DIRECTORIES] if is_local else []
        own = _output_directories(self._run_dir, self._launch)
        recorder = MetricRecorder(self._run_dir.metrics, self._clock, self._output.remark)
        return RunMetrics(recorder, EventFileWatch(own, shared=shared, user=self._user))

    def _parts(self, engine: PartEngine, secret: str, secrets: Mapping[str, str]) -> PartWorkers:
        variables, files = split(self._launch.secrets, secrets)
        workers = PartWorkers(
            self._launch, self._output, self, secret=secret, variables=variables, files=files,
            start_limit_s=engine.start_limit_s, usage_file=self._run_dir.usage,
        )  # fmt: skip
        run = PartRun(
            run_id=self._launch.run_id, directory=self._run_dir.path, settings=engine.settings, user=self._user
        )
        workers.use(engine.launcher(run, workers))
        return workers

    async def run(self) -> None:
        """Listen, start the workers, and stay until the last report is on the disk."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._workers.reap)
        loop.add_signal_handler(signal.SIGTERM, self._supervisor.stop, self._launch.grace_s, "signal")
        self._address = await self._lines.listen(self._address)
        self._workers.listen(self._address)
        requests = self._sockets / REQUESTS_SOCKET
        server = await asyncio.start_unix_server(self._serve, path=requests, limit=LONGEST_LINE)
        self.report(ReportKind.LAUNCHED, pid=os.getpid())
        self._tell(RunState.ACCEPTED)
        about = {"pid": os.getpid(), "started_at": self._clock(), "socket": str(requests)}
        write_atomically(self._run_dir.agent_file, json.dumps(about), durable=True)
        self._supervisor.start()
        while self._supervisor.phase is not RunPhase.OVER or not self._journal.settled:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), TICK_S)
            self._ended.clear()
            self._tick()
        server.close()
        await self._close()

    # --- host of the supervisor ---------------------------------------------------------------------------------------

    def now(self) -> float:
        return time.monotonic()

    def spawn(self, group: WorkerGroup, worker: Worker, restarts: int) -> None:
        self._locks.take(worker.id, worker.place)
        self._workers.spawn(group, worker, restarts)

    def terminate(self, member: Member) -> None:
        self._workers.terminate(member.worker.id)

    def kill(self, member: Member) -> None:
        self._workers.kill(member.worker.id)

    def send(self, worker_id: str, message: AgentMessage) -> None:
        if isinstance(message, World):
            self._workers.set_rank(worker_id, message.rank)
        self._lines.send(worker_id, message)

    def report(self, kind: ReportKind, **said: Any) -> None:
        if kind in (ReportKind.FINISHED, ReportKind.FAILED, ReportKind.SUSPENDED, ReportKind.RESIZED):
            self._progress.flush()
            self._metrics.flush()
        if kind is ReportKind.FAILED and not said.get("tail"):
            said["tail"] = self._output.tail()
        self._journal.append(kind, said)

    def sweep(self) -> None:
        self._workers.sweep()

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
        self._metrics.expect(pid)
        self._supervisor.started(worker_id, pid)

    def on_exited(self, worker_id: str, how: Exit) -> None:
        """Hear a worker out first: what it sent before it ended may still be on the line."""
        self._locks.release(worker_id)
        self._meter_usage()
        self._background.start(self._exited(worker_id, how))

    def on_leaving(self, worker_id: str, within_s: float, words: str) -> None:
        _log.info("worker %s has to leave within %g s: %s", worker_id, within_s, words)
        self._supervisor.leaving(worker_id, within_s, PartFate.EVICTED)

    def on_file_progress(self, said: dict[str, Any]) -> None:
        self._supervisor.sign_of_life()
        self._take_progress(said)

    def can_spare(self, worker_id: str) -> bool:
        return self._supervisor.can_spare(worker_id)

    def is_cut_off(self, worker_id: str) -> bool:
        return self._lines.is_cut_off(worker_id)

    def _on_line(self, worker_id: str, stream: str, line: str) -> None:
        self._supervisor.sign_of_life()
        member = self._supervisor.members.get(worker_id)
        if stream != "stdout" or member is None or member.rank != 0:
            return
        self._metrics.line(line)
        if member.elastic:
            return
        said = parse_line(line)
        if said and said[0] is ReportKind.CHECKPOINTED:
            self._supervisor.checkpointed(said[1])
        elif said:
            self._progress.take(said[1])
            self._metrics.reached(said[1]["step"])
        elif what := complaint(line):
            self._doubt(worker_id, what)

    def _doubt(self, worker_id: str, what: str) -> None:
        """Tell whoever reads the run's output, and count."""
        self._output.remark(f"ignored what worker {worker_id} said: {what}")
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
                self._take_progress(plain(message))
            case MetricsLogged():
                self._metrics.logged(message.values)
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
                return Answer(usage=self._workers.usage())
        return Answer()

    # --- time ----------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if said := self._progress_file.news():
            self.on_file_progress(said)
        self._progress.flush_when_due()
        self._metrics.tick()
        self._hint_at_progress()
        if time.monotonic() - self._metered_at >= METER_EVERY_S:
            self._meter_usage()
        self._journal.flush()
        self._supervisor.tick()
        self._workers.tick(self._supervisor.returns)
        self._tell_state()

    def _hint_at_progress(self) -> None:
        if self._quiet_until is None or time.monotonic() < self._quiet_until:
            return
        self._quiet_until = None
        if not self._progress.has_begun and not any(member.elastic for member in self._supervisor.members.values()):
            self._output.remark(
                f"no progress was told in {QUIET_S:g} s, so nobody can say when this will be done; "
                "print lines such as `penstock: step=3 total=100`"
            )

    def _tell_state(self) -> None:
        """Leave the state where servers find it without asking."""
        state, words = self._supervisor.state, self._workers.waiting()
        if state is RunState.STARTING and words is not None:
            state = RunState.WAITING if words else RunState.ACCEPTED
        self._tell(state, words or "")

    def _tell(self, state: RunState, words: str = "") -> None:
        text = f"{state.value}\n{words}" if words else state.value
        if text != self._told_state:
            with suppress(OSError):
                write_atomically(self._run_dir.state_file, text)
                self._told_state = text

    def _meter_usage(self) -> None:
        self._metered_at = time.monotonic()
        self._workers.usage()

    def _record_progress(self, said: dict[str, Any]) -> None:
        group = self._supervisor.world
        self._journal.append(ReportKind.PROGRESS, {**said, "width": group.size, "generation": group.generation})

    def _take_progress(self, said: dict[str, Any]) -> None:
        """Progress of a worker that counts its steps itself, or of its file."""
        self._progress.take(said)
        self._metrics.progress(said)

    async def _close(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)
        self._lines.close()
        await self._workers.close()
        self._metrics.flush()
        self._output.close()
        self._journal.close()
        discard_sockets(self._sockets, self._run_dir.path)
        self._run_dir.secret_file.unlink(missing_ok=True)
        shutil.rmtree(self._run_dir.secrets, ignore_errors=True)


def main(argv: list[str] | None = None, secrets: Mapping[str, str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="penstock-agent", description="Run the workers of one run.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--detach", action="store_true", help="live on in a session of its own")
    parser.add_argument("--listen", type=AgentAddress.parse, help="where workers reach the agent: tcp://host:port")
    parser.add_argument("--parts", type=PartEngine.from_json, help="who starts workers elsewhere, in JSON")
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
    agent = AgentOptions(
        listen=options.listen, engine=options.parts, identity=Identity(options.run_as, os.umask(0o077)),
        clock_offset=options.clock_offset,
    )  # fmt: skip
    run_dir = RunDir(options.run_dir.resolve())
    if options.detach or options.kept:
        return run_below_subreaper(lambda: _run(run_dir, agent, secrets), at_end=lambda: _clean_up(run_dir))
    return _run(run_dir, agent, secrets)


def _run(run_dir: RunDir, options: AgentOptions, secrets: Mapping[str, str]) -> int:
    for unheeded in (signal.SIGINT, signal.SIGHUP):
        signal.signal(unheeded, _heed_not)
    lock = hold_lock(run_dir)
    if lock is None:
        return 0
    launch = run_dir.read_launch()
    if launch is None:
        sys.stderr.write(f"no launch.json in {run_dir.path}: nothing to run\n")
        return 2
    identity = options.identity
    processes.become_subreaper()
    if identity.user is not None and not hide_other_processes():
        sys.stderr.write("workers see the machine's other processes: this kernel gives a run no view of its own\n")
    let_through(run_dir.path, identity.user)
    own_directory(run_dir.job, identity.user)
    run_dir.progress.unlink(missing_ok=True)
    if options.engine is None and not is_url(launch.checkpoint_dir):
        with suppress(OSError), acting_as(identity.user):
            Path(launch.checkpoint_dir or run_dir.checkpoints).mkdir(parents=True, exist_ok=True)
    asyncio.run(_supervise(run_dir, launch, options, secrets))
    return 0


def _clean_up(run_dir: RunDir) -> None:
    """After an agent that may have been killed: containers are nobody's children, and its groups nobody else's."""
    launch = run_dir.read_launch()
    if launch is None:
        return
    end_limited(launch, run_dir.path)
    if launch.container is not None and launch.container.runtime:
        remove_run(launch.container.runtime, launch.run_id)


def _heed_not(_number: int, _frame: object) -> None:
    """A handler, because workers would inherit a signal that is ignored."""


async def _supervise(run_dir: RunDir, launch: Launch, options: AgentOptions, secrets: Mapping[str, str]) -> None:
    await Agent(run_dir, launch, options, secrets).run()


def _new_secret(run_dir: RunDir, user: UnixUser | None) -> str:
    """What workers of this run know and nobody else: in a file that only their user can read."""
    secret = random.token_hex(32)
    write_atomically(run_dir.secret_file, secret, mode=0o600)
    hand_over(run_dir.secret_file, user)
    return secret


def _output_directories(run_dir: RunDir, launch: Launch) -> list[Path]:
    """Where a job leaves files, as far as this machine sees it."""
    saved = launch.checkpoint_dir
    return [run_dir.job, *([Path(saved)] if saved and not is_url(saved) else [])]


def _said(message: CheckpointSaved | CheckpointFailed) -> dict[str, Any]:
    return {name: value for name, value in plain(message).items() if value not in (None, "")}


if __name__ == "__main__":
    sys.exit(main())
