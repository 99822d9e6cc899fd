"""One run from its first process to its last report: what its supervisor decides is carried out here."""

import asyncio
import json
import logging
import os
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from penstock.backends.agent.background_tasks import BackgroundTasks
from penstock.backends.agent.line_certificate import LineCertificate
from penstock.backends.agent.meeting_stores import MeetingStores
from penstock.backends.agent.metrics.stop_metric import StopMetric
from penstock.backends.agent.outputs import TAIL_LINES, RunLog
from penstock.backends.agent.ownership import own_directory
from penstock.backends.agent.parts import PartFate
from penstock.backends.agent.progress import ProgressFile
from penstock.backends.agent.report_journal import ReportJournalWriter
from penstock.backends.agent.run_workers import RunWorkers
from penstock.backends.agent.secrets import Mask
from penstock.backends.agent.states import Exit, Member, RunPhase, WorkerGroup
from penstock.backends.agent.supervisor import Supervisor
from penstock.backends.agent.usage_curves import UsageCurves
from penstock.backends.agent.watch.run_observer import RunObserver
from penstock.backends.agent.watch.stack_looks import StackLooks
from penstock.backends.agent.worker_lines import WorkerLines
from penstock.backends.runs.agent.agent_options import AgentOptions
from penstock.backends.runs.agent.request_server import RequestServer
from penstock.backends.runs.agent.state_file import StateFile
from penstock.backends.runs.agent.telemetry import RunTelemetry
from penstock.backends.runs.agent.worker_setup import WorkerSetup, new_secret
from penstock.backends.runs.device_locks import DeviceLocks
from penstock.backends.runs.rundir import REQUESTS_SOCKET, WORKERS_SOCKET, RunDir, discard_sockets, socket_directory
from penstock.core import (
    AgentAddress,
    AgentMessage,
    DeviceSlot,
    FailureReason,
    Launch,
    ReportKind,
    RunState,
    Worker,
    World,
)
from penstock.tools import SteadyClock, write_atomically

_log = logging.getLogger(__name__)

TICK_S = 0.1
_AFTER_ALL_ELSE = (
    ReportKind.RELEASED, ReportKind.FINISHED, ReportKind.FAILED, ReportKind.SUSPENDED, ReportKind.RESIZED,
)  # fmt: skip
"""What is told when all that workers said before is."""
METER_EVERY_S = 5.0
"""How often energy is added up when nobody asks."""


class Agent:
    """The host of a run's supervisor, and the listener of its workers."""

    def __init__(
        self,
        run_dir: RunDir,
        launch: Launch,
        options: AgentOptions,
        secrets: Mapping[str, str],
    ) -> None:
        self._run_dir = run_dir
        self._launch = launch
        self._user = options.identity.user
        self._sockets = socket_directory(run_dir.path, self._user)
        self._address = options.listen or AgentAddress(path=str(self._sockets / WORKERS_SOCKET))
        self._certificate = LineCertificate.of(options.certificate_of) if options.certificate_of else None
        self._clock = SteadyClock(offset=options.clock_offset)
        self._journal = ReportJournalWriter(run_dir.journal, launch.run_id, self._clock)
        self._metered_at = time.monotonic()
        self._locks = DeviceLocks(run_dir.devices)
        self._supervisor = Supervisor(launch, self)
        self._output = RunLog(run_dir.path, self._on_line, Mask(secrets.values()), self._clock)
        self._usage_curves = UsageCurves(run_dir.usage_curves, self._clock, self._output.remark)
        self._stores = MeetingStores()
        self._observer = RunObserver(run_dir.watch_file, self._clock, self._journal.append, self._output.remark)
        self._set_up_workers(options, secrets)
        self._requests = RequestServer(self._supervisor, self._workers)
        self._state_file = StateFile(run_dir.state_file)
        self._background = BackgroundTasks()
        self._ended = asyncio.Event()

    def _set_up_workers(self, options: AgentOptions, secrets: Mapping[str, str]) -> None:
        """Who starts them, the lines to them, and what is made of what they tell."""
        setup = WorkerSetup(
            run_dir=self._run_dir, launch=self._launch, output=self._output, secrets=secrets,
            is_new=self._launch.attempt == 0 and not self._run_dir.secret_file.exists(),
        )  # fmt: skip
        secret = new_secret(self._run_dir, self._user)
        self._workers: RunWorkers
        serve_host = None
        if options.engine is None:
            self._workers = setup.processes(options.identity, self)
        else:
            self._workers = parts = setup.parts(options.engine, self, secret, self._user)
            serve_host = parts.serve
        self._stop_metric = StopMetric(self._launch, self._record_metric, self._supervisor.finish)
        metrics = setup.metrics(self._clock, self._user, self._stop_metric.take, is_local=options.engine is None)
        self._looks = StackLooks(self._run_dir.stacks, self, is_local=options.engine is None)
        self._telemetry = told = RunTelemetry(
            self._supervisor, self._journal, metrics, ProgressFile(self._run_dir.progress), self._output.remark,
            observer=self._observer, looks=self._looks,
        )  # fmt: skip
        self._lines = WorkerLines(secret, self._stores, hear=told.message, doubt=told.doubt, host=serve_host)

    async def run(self) -> None:
        """Listen, start the workers, and stay until the last report is on the disk."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._workers.reap)
        loop.add_signal_handler(signal.SIGTERM, self._supervisor.stop, self._launch.grace_s, FailureReason.SIGNAL)
        await self._listen()
        self._supervisor.start()
        while self._supervisor.phase is not RunPhase.OVER or not self._journal.settled:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), TICK_S)
            self._ended.clear()
            self._tick()
        self._requests.close()
        await self._close()

    async def _listen(self) -> None:
        """To workers first: servers may ask for things as soon as they find the agent's file."""
        self._address = await self._lines.listen(self._address, self._certificate)
        self._workers.listen(self._address)
        requests = self._sockets / REQUESTS_SOCKET
        await self._requests.listen(requests)
        self.report(ReportKind.LAUNCHED, pid=os.getpid())
        self._state_file.tell(RunState.ACCEPTED)
        about = {"pid": os.getpid(), "started_at": self._clock(), "socket": str(requests)}
        write_atomically(self._run_dir.agent_file, json.dumps(about), durable=True)

    # --- host of the supervisor ---------------------------------------------------------------------------------------

    def now(self) -> float:
        return time.monotonic()

    def spawn(self, group: WorkerGroup, worker: Worker, restarts: int) -> None:
        if worker.has_device:
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
        if kind in _AFTER_ALL_ELSE:
            self._telemetry.flush()
            self._stop_metric.flush()
        if kind is ReportKind.FINISHED and (ending := self._stop_metric.ending):
            said["reason"] = ending
        if kind is ReportKind.FAILED and not said.get("tail"):
            seen = self._looks.lines if said.get("reason") == FailureReason.HANG else []
            said["tail"] = (*self._output.tail(), *seen)[-TAIL_LINES:]
        if kind is ReportKind.STUCK:
            self._observer.stuck(said["reason"], said["path"])
        else:
            self._journal.append(kind, said)

    def look(self) -> None:
        self._background.start(self._look())

    def dump_stacks(self, worker_id: str) -> None:
        self._workers.dump_stacks(worker_id)

    async def _look(self) -> None:
        self._supervisor.looked(await self._looks.take(self._supervisor.on_devices))
        self._ended.set()

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

    # --- what happens to workers --------------------------------------------------------------------------------------

    def on_started(self, worker_id: str, pid: int) -> None:
        self._meter_usage()  # what a worker uses is counted from its start to its end
        self._telemetry.expect(pid)
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
        self._telemetry.file_progress(said)

    def can_spare(self, worker_id: str) -> bool:
        return self._supervisor.can_spare(worker_id)

    def is_cut_off(self, worker_id: str) -> bool:
        return self._lines.is_cut_off(worker_id)

    def _record_metric(self, step: int, value: float) -> None:
        self._journal.append(ReportKind.METRIC, {"step": step, "value": value})

    def _on_line(self, worker_id: str, stream: str, line: str) -> None:
        self._telemetry.line(worker_id, stream, line)

    async def _exited(self, worker_id: str, how: Exit) -> None:
        await self._lines.last_words(worker_id)
        self._supervisor.exited(worker_id, how)
        self._ended.set()

    # --- time ---------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._telemetry.tick()
        self._observer.tick()
        if time.monotonic() - self._metered_at >= METER_EVERY_S:
            self._meter_usage()
        self._journal.flush()
        self._supervisor.tick()
        self._workers.tick(self._supervisor.returns)
        self._state_file.tell(self._supervisor.state, self._workers.waiting())

    def _meter_usage(self) -> None:
        self._metered_at = time.monotonic()
        self._usage_curves.note(self._workers.usage())

    async def _close(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)
        self._lines.close()
        await self._workers.close()
        self._telemetry.close()
        self._usage_curves.flush()
        self._observer.flush()
        self._output.close()
        self._journal.close()
        discard_sockets(self._sockets, self._run_dir.path)
        self._run_dir.secret_file.unlink(missing_ok=True)
        shutil.rmtree(self._run_dir.secrets, ignore_errors=True)
