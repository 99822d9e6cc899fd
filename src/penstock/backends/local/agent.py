"""The process beside a run: it starts the workers, listens to them and to servers, and writes down what happens.

``python -m penstock.backends.local.agent RUN_DIR`` runs in the foreground; with ``--detach`` it lives in its own
session and outlasts whoever started it. One thread, one event loop; no torch. All decisions are the
:class:`~penstock.backends.local.supervisor.Supervisor`'s; this is its eyes and hands.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock.backends.base import worker_from_dict
from penstock.backends.local import processes
from penstock.backends.local.device_locks import Claims
from penstock.backends.local.environment import base_environment, free_port, worker_environment
from penstock.backends.local.journal import JournalWriter
from penstock.backends.local.progress import clean_progress, parse_file, parse_line
from penstock.backends.local.rundir import RunDir, discard_socket, hold_lock, socket_path
from penstock.backends.local.spawner import Spawner
from penstock.backends.local.states import Exit, Member, Phase, World
from penstock.backends.local.supervisor import Supervisor
from penstock.backends.local.usage import Held, UsageMeter
from penstock.core import Launch, PenstockError, ReportKind, Worker
from penstock.tools import write_atomically

TICK_S = 0.1
PROGRESS_EVERY_S = 0.5
"""How often progress is written down; in between only the latest counts."""
METER_EVERY_S = 5.0
"""How often energy is added up when nobody asks."""
LAST_WORDS_S = 1.0
"""How long to wait for what a worker sent before it ended."""
_LONGEST_MESSAGE = 2**20

Message = dict[str, Any]


class Agent:
    """One run from its first process to its last report."""

    def __init__(self, run_dir: RunDir, launch: Launch) -> None:
        self._run_dir = run_dir
        self._launch = launch
        self._socket = socket_path(run_dir.path)
        self._journal = JournalWriter(run_dir.journal, launch.run_id)
        self._base_env = base_environment(os.environ, launch, run_dir)
        self._meter = UsageMeter(os.getpid(), run_dir.usage)
        self._metered_at = time.monotonic()
        self._claims = Claims(run_dir.devices)
        self._supervisor = Supervisor(launch, self)
        self._spawner = Spawner(run_dir, launch, self._base_env, self)
        self._lines: dict[str, asyncio.StreamWriter] = {}
        self._line_ends: dict[str, asyncio.Event] = {}
        self._ports: dict[int, int] = {}
        self._progress: dict[str, Any] | None = None
        self._progress_at = 0.0
        self._progress_stamp = 0
        self._background: set[asyncio.Task[None]] = set()
        self._commands: dict[str, Callable[[Message], Message | None]] = {
            "ping": self._ping, "resize": self._resize, "suspend": self._suspend,
            "checkpoint": self._checkpoint, "stop": self._stop, "usage": self._usage,
        }  # fmt: skip

    async def run(self) -> None:
        """Listen, start the workers, and stay until the last report is on the disk."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._spawner.reap)
        loop.add_signal_handler(signal.SIGTERM, self._supervisor.stop, self._launch.grace_s, "signal")
        server = await asyncio.start_unix_server(self._serve, path=self._socket, limit=_LONGEST_MESSAGE)
        self.report(ReportKind.LAUNCHED, pid=os.getpid())
        about = {"pid": os.getpid(), "started_at": time.time(), "socket": str(self._socket)}
        write_atomically(self._run_dir.agent_file, json.dumps(about), durable=True)
        self._supervisor.start()
        while self._supervisor.phase is not Phase.OVER or not self._journal.settled:
            await asyncio.sleep(TICK_S)
            self._tick()
        server.close()
        self._close()

    # --- hands of the supervisor ----------------------------------------------------------------------------------

    def now(self) -> float:
        return time.monotonic()

    def spawn(self, world: World, worker: Worker, restarts: int) -> None:
        env = worker_environment(
            self._base_env, world, worker, agent=str(self._socket), port=self._port_of(world),
            restart_count=self._launch.attempt + restarts,
        )  # fmt: skip
        self._claims.take(worker.id, worker.device)
        self._spawner.spawn(worker.id, world.rank_of(worker.id), env)

    def terminate(self, member: Member) -> None:
        self._spawner.terminate(member.worker.id)

    def kill(self, member: Member) -> None:
        self._spawner.kill(member.worker.id)

    def send(self, worker_id: str, message: Message) -> None:
        if message["type"] == "world":
            self._spawner.set_rank(worker_id, message["rank"])
        if line := self._lines.get(worker_id):
            line.write(_encode(message))

    def report(self, kind: ReportKind, **said: Any) -> None:
        if kind in (ReportKind.FINISHED, ReportKind.FAILED, ReportKind.SUSPENDED, ReportKind.RESIZED):
            self._write_progress()
        if kind is ReportKind.FAILED and not said.get("tail"):
            said["tail"] = self._spawner.tail()
        self._journal.append(kind, said)

    def sweep(self) -> None:
        self._spawner.sweep()

    def is_free(self, device: int) -> bool:
        return self._claims.is_free(device)

    def rendezvous(self, world: World) -> str:
        place = self._run_dir.rendezvous / f"{self._launch.attempt}-{world.generation}"
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)
        return str(place)

    # --- what happens to processes ----------------------------------------------------------------------------------

    def on_started(self, worker_id: str, pid: int) -> None:
        self._meter_usage()  # what a worker uses is counted from its start to its end
        self._supervisor.started(worker_id, pid)

    def on_exited(self, worker_id: str, how: Exit) -> None:
        """Hear a worker out first: what it sent before it ended may still be on the line."""
        self._claims.release(worker_id)
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
            self._take_progress(said[1])

    async def _exited(self, worker_id: str, how: Exit) -> None:
        if ended := self._line_ends.get(worker_id):
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), LAST_WORDS_S)
        self._lines.pop(worker_id, None)
        self._line_ends.pop(worker_id, None)
        self._supervisor.exited(worker_id, how)

    # --- the socket ------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: a server's requests, or a worker from its hello on."""
        worker_id: str | None = None
        ended = asyncio.Event()
        try:
            while line := await reader.readline():
                message = _decode(line)
                if "op" in message or "type" not in message:
                    writer.write(_encode(self._answer(message)))
                    await writer.drain()
                elif message["type"] == "hello":
                    worker_id = str(message.get("worker"))
                    self._lines[worker_id], self._line_ends[worker_id] = writer, ended
                    self._supervisor.hello(worker_id, bool(message.get("elastic")))
                elif worker_id is not None:
                    self._hear(worker_id, message)
        except (ConnectionError, ValueError):
            pass  # a line too long, or a peer that is gone: either way this connection is over
        finally:
            ended.set()
            if worker_id is not None and self._lines.get(worker_id) is writer:
                del self._lines[worker_id]
            writer.close()

    def _hear(self, worker_id: str, message: Message) -> None:
        match message["type"]:
            case "ready":
                self._supervisor.ready(worker_id)
            case "progress":
                self._supervisor.trained(worker_id)
                self._take_progress(clean_progress(message))
            case "joined":
                self._supervisor.joined(_whole(message, "generation") or 0, float(message.get("pause_s") or 0.0))
            case "checkpointed":
                self._supervisor.checkpointed({k: message[k] for k in ("step", "path", "blocking_s") if k in message})
            case "checkpoint_failed":
                self._supervisor.checkpoint_failed({k: message[k] for k in ("step", "path", "reason") if k in message})
            case "suspended":
                self._supervisor.suspended(_whole(message, "step"))
            case "bye":
                self._supervisor.bye(worker_id)

    def _answer(self, request: Message) -> Message:
        command = self._commands.get(str(request.get("op")))
        if command is None:
            return {"ok": False, "error": f"unknown op {request.get('op')!r}; known: {', '.join(self._commands)}"}
        try:
            return {"ok": True, **(command(request) or {})}
        except (PenstockError, KeyError, TypeError, ValueError) as error:
            return {"ok": False, "error": f"{type(error).__name__}: {error}"}

    # --- commands of servers -----------------------------------------------------------------------------------------

    def _ping(self, _request: Message) -> Message:
        world = self._supervisor.world
        return {"run_id": self._launch.run_id, "phase": self._supervisor.phase.value, "generation": world.generation}

    def _resize(self, request: Message) -> Message:
        workers = tuple(worker_from_dict(worker) for worker in request["workers"])
        if not workers:
            raise ValueError("a world needs at least one worker; use suspend to take all devices")
        self._supervisor.resize(int(request["generation"]), workers)
        return {"generation": self._supervisor.world.generation}

    def _suspend(self, _request: Message) -> None:
        self._supervisor.suspend()

    def _checkpoint(self, _request: Message) -> Message:
        return {"asked": self._supervisor.checkpoint()}

    def _stop(self, request: Message) -> None:
        self._supervisor.stop(float(request.get("grace_s", self._launch.grace_s)))

    def _usage(self, _request: Message) -> Message:
        return {"usage": asdict(self._meter.sample(self._held()))}

    def _held(self) -> Held:
        """A worker without a GPU occupies processor cores: as many as its slot has threads."""
        environments = [dict(member.worker.device_env) for member in self._supervisor.members.values()]
        gpus = [env["CUDA_VISIBLE_DEVICES"] for env in environments if "CUDA_VISIBLE_DEVICES" in env]
        threads = [int(env["OMP_NUM_THREADS"]) for env in environments if "OMP_NUM_THREADS" in env]
        return Held(gpus=tuple(dict.fromkeys(gpus)), threads=0 if gpus else sum(threads))

    # --- time ----------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._read_progress_file()
        if time.monotonic() - self._progress_at >= PROGRESS_EVERY_S:
            self._write_progress()
        if time.monotonic() - self._metered_at >= METER_EVERY_S:
            self._meter_usage()
        self._journal.flush()
        self._supervisor.tick()

    def _meter_usage(self) -> None:
        self._metered_at = time.monotonic()
        self._meter.sample(self._held())
        self._meter.save()

    def _take_progress(self, said: dict[str, Any]) -> None:
        if "step" not in said:
            return
        self._progress = said
        if time.monotonic() - self._progress_at >= PROGRESS_EVERY_S:
            self._write_progress()

    def _write_progress(self) -> None:
        if self._progress is None:
            return
        said, self._progress, self._progress_at = self._progress, None, time.monotonic()
        world = self._supervisor.world
        self._journal.append(ReportKind.PROGRESS, {**said, "width": world.size, "generation": world.generation})

    def _read_progress_file(self) -> None:
        with suppress(OSError, UnicodeDecodeError):
            stamp = self._run_dir.progress.stat().st_mtime_ns
            if stamp != self._progress_stamp and (said := parse_file(self._run_dir.progress.read_text())):
                self._progress_stamp = stamp
                self._supervisor.sign_of_life()
                self._take_progress(said[1])

    def _port_of(self, world: World) -> int:
        if world.generation not in self._ports:
            self._ports[world.generation] = free_port()
        return self._ports[world.generation]

    def _close(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)
        self._spawner.close()
        self._spawner.sweep()
        self._journal.close()
        discard_socket(self._socket, self._run_dir.path)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="penstock-agent", description="Run the workers of one run.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--detach", action="store_true", help="live on in a session of its own")
    options = parser.parse_args(argv)
    if options.detach and os.fork():
        os._exit(0)
    if options.detach:
        os.setsid()
    return _run(RunDir(options.run_dir.resolve()))


def _run(run_dir: RunDir) -> int:
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
    run_dir.progress.unlink(missing_ok=True)
    with suppress(OSError):
        Path(launch.checkpoint_dir or run_dir.checkpoints).mkdir(parents=True, exist_ok=True)
    asyncio.run(_supervise(run_dir, launch))
    return 0


def _heed_not(_number: int, _frame: object) -> None:
    """A handler, because workers would inherit a signal that is ignored."""


async def _supervise(run_dir: RunDir, launch: Launch) -> None:
    await Agent(run_dir, launch).run()


def _encode(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _decode(line: bytes) -> Message:
    try:
        message = json.loads(line)
    except ValueError:
        return {"op": line.decode(errors="replace").strip()[:80]}
    return message if isinstance(message, dict) else {"op": str(message)[:80]}


def _whole(message: Message, name: str) -> int | None:
    value = message.get(name)
    return int(value) if isinstance(value, int | float) else None


if __name__ == "__main__":
    sys.exit(main())
