"""A small agent for tests: the real zygote, real worker processes, the real protocol, and nothing decided by itself."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from penstock.backends.agent.processes import become_subreaper
from penstock.core import (
    AGENT_MESSAGES,
    WORKER_MESSAGES,
    AgentAddress,
    AgentMessage,
    Hello,
    Joined,
    LeaveOrder,
    Ready,
    TrainingProgress,
    WorkerMessage,
    World,
)

MessageT = TypeVar("MessageT", bound=WorkerMessage)

Message = dict[str, Any]
DEADLINE_S = 120.0


def wait_until(condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """Poll until something is true and return it."""
    deadline = time.monotonic() + deadline_s
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s:g} s: {what}")
        time.sleep(0.005)
    return found


class Zygote:
    """The test's end of a real zygote; shared by many agents. Workers become children of the test's process."""

    def __init__(self) -> None:
        become_subreaper()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock.runtime.zygote"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.events: list[Message] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, **request: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def event(self, kind: str, worker: str) -> Message | None:
        found = [one for one in self.events if one["event"] == kind and one.get("id") == worker]
        return found[0] if found else None

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(event := json.loads(line))
            if event["event"] == "started":
                threading.Thread(target=self._wait, args=(event["id"], event["pid"]), daemon=True).start()

    def _wait(self, worker: str, pid: int) -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self.events.append({"event": "exited", "id": worker, "code": code, "signal": -code if code < 0 else None})


@dataclass
class Peer:
    """One worker as the agent sees it."""

    pid: int
    key: str
    line: socket.socket | None = None
    heard: list[WorkerMessage] = field(default_factory=list)


class Agent:
    """Starts workers, keeps their lines, and forms the worlds a test asks for."""

    _runs = 0

    def __init__(self, zygote: Zygote, folder: Path, script: Path, *arguments: str) -> None:
        Agent._runs += 1
        self.folder = folder
        self.checkpoints: Path | str = folder / "checkpoints"
        self.env: dict[str, str] = {}
        self.peers: dict[str, Peer] = {}
        self.world: list[str] = []
        self.generation = -1
        self._run = Agent._runs
        self._zygote = zygote
        self._argv = [str(script), *arguments]
        self._starts = 0
        self._lock = threading.Lock()
        self._listeners: list[threading.Thread] = []
        self.socket = folder / "agent.sock"
        self.address = AgentAddress(path=str(self.socket))
        self.listen()

    def listen(self) -> None:
        self.socket.unlink(missing_ok=True)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self.socket))
        self._server.listen()
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def vanish(self) -> None:
        """Hang up on everyone, as a crash would."""
        for line in (self._server, *(peer.line for peer in self.peers.values())):
            if line is not None:
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def start(self, *workers: str) -> None:
        """Fork the first world and let it begin; after its end, the first world of another attempt."""
        self._starts += 1
        self.generation = 0
        self.world = list(workers)
        self._fork(*workers)
        self.wait_ready(*workers)
        self.announce(())

    def resize(self, *workers: str) -> None:
        """Change to another world in place: newcomers get ready first, then everyone hears of it."""
        newcomers = [worker for worker in workers if worker not in self.peers]
        before, self.generation = self.world, self.generation + 1
        self._fork(*newcomers, world=workers)
        self.wait_ready(*newcomers)
        self.world = list(workers)
        self.announce(before)
        for worker in set(before) - set(workers):
            self.send(worker, LeaveOrder())

    def bury(self, *dead: str) -> None:
        """Tell those who are left that they are alone now."""
        before, self.generation = self.world, self.generation + 1
        self.world = [worker for worker in before if worker not in dead]
        self.announce(before)

    def replace(self, dead: str, newcomer: str) -> None:
        """The next world with another worker, who is ready, in the place of a dead one."""
        before, self.generation = self.world, self.generation + 1
        self.world = [newcomer if worker == dead else worker for worker in before]
        self.announce(before)

    def kill(self, worker: str) -> None:
        os.kill(self.peers[worker].pid, signal.SIGKILL)

    def announce(self, before: Sequence[str]) -> None:
        for worker in self.world:
            self.send(worker, self.world_message(worker, before))

    def world_message(self, worker: str, before: Sequence[str]) -> World:
        return World(
            generation=self.generation, rank=self.world.index(worker), size=len(self.world), members=tuple(self.world),
            rendezvous=f"file:{self.meeting}", survivors=tuple(w for w in self.world if w in before),
        )  # fmt: skip

    @property
    def meeting(self) -> Path:
        return self.folder / f"rendezvous-{self._starts}-{self.generation}"

    def wait_here(self, worker: str) -> None:
        """Until a worker waits for the others of the present world."""
        wait_until(lambda: self.meeting.exists() and f"here/{worker}" in self.meeting.read_text(), f"{worker} here")

    def prepare(self, *workers: str) -> None:
        """Start newcomers and wait until they could join."""
        self._fork(*workers)
        self.wait_ready(*workers)

    def send(self, worker: str, message: AgentMessage) -> None:
        self.send_line(worker, AGENT_MESSAGES.encode(message))

    def send_line(self, worker: str, line: bytes) -> None:
        wait_until(lambda: self.peers[worker].line, f"a line to {worker}").sendall(line)

    def heard(self, kind: type[MessageT]) -> list[MessageT]:
        with self._lock:
            return [one for peer in self.peers.values() for one in peer.heard if isinstance(one, kind)]

    def step(self) -> int:
        return max((one.step for one in self.heard(TrainingProgress)), default=0)

    def wait_step(self, step: int) -> None:
        wait_until(lambda: self.step() >= step, f"step {step}; {self.errors()}")

    def wait_ready(self, *workers: str) -> None:
        def ready() -> bool:
            return all(any(isinstance(m, Ready) for m in self.peers[worker].heard) for worker in workers)

        wait_until(ready, f"{workers} ready; {self.errors()}")

    def wait_joined(self) -> Joined:
        """The report of the first step in the present world."""
        return wait_until(
            lambda: next((one for one in self.heard(Joined) if one.generation == self.generation), None),
            f"generation {self.generation} joined; {self.errors()}",
        )

    def wait_exits(self, *workers: str) -> list[Message]:
        """How the workers ended."""
        chosen = workers or tuple(self.peers)
        return [
            wait_until(lambda w=worker: self._zygote.event("exited", self.peers[w].key), f"exit of {worker}")
            for worker in chosen
        ]

    def errors(self) -> str:
        texts = {path.parent.name: path.read_text()[-1500:] for path in self.folder.glob("workers/*/stderr.log")}
        return "\n".join(f"--- {worker}\n{text}" for worker, text in texts.items() if text)

    def records(self, name: str) -> list[Message]:
        """What the workers wrote down, all together."""
        paths = sorted(self.folder.glob(f"{name}-*"))
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    def close(self) -> None:
        """End whatever is left and wait for it."""
        for peer in self.peers.values():
            if self._zygote.event("exited", peer.key) is None:
                os.kill(peer.pid, signal.SIGKILL)
        self.wait_exits()
        self.vanish()
        for listener in self._listeners:
            listener.join(10)

    def _fork(self, *workers: str, world: tuple[str, ...] = ()) -> None:
        for worker in workers:
            logs = self.folder / "workers" / worker
            logs.mkdir(parents=True, exist_ok=True)
            key = f"{self._run}/{self._starts}/{worker}/{self.generation}"
            self._zygote.ask(
                op="fork", id=key, argv=self._argv, env=self._environment(worker, world or workers),
                cwd=str(self.folder), stdout=str(logs / "stdout.log"), stderr=str(logs / "stderr.log"),
            )  # fmt: skip
            started = wait_until(lambda k=key: self._zygote.event("started", k), f"start of {worker}")
            self.peers[worker] = Peer(started["pid"], key)

    def _environment(self, worker: str, world: tuple[str, ...]) -> dict[str, str]:
        rank = world.index(worker)
        return {
            "RANK": str(rank), "WORLD_SIZE": str(len(world)), "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(len(world)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0",
            "PENSTOCK_AGENT": str(self.address), "PENSTOCK_WORKER": worker, "PENSTOCK_RUN_DIR": str(self.folder),
            "PENSTOCK_GENERATION": str(self.generation), "PENSTOCK_CHECKPOINT_DIR": str(self.checkpoints),
            "OMP_NUM_THREADS": "1", **self.env,
        }  # fmt: skip

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                line, _ = server.accept()
            except OSError:
                return
            self._listeners.append(threading.Thread(target=self._listen, args=(line,), daemon=True))
            self._listeners[-1].start()

    def _listen(self, line: socket.socket) -> None:
        peer: Peer | None = None
        with line, line.makefile("rb") as lines:
            for text in lines:
                message = WORKER_MESSAGES.decode(text)
                if isinstance(message, Hello):
                    peer = wait_until(lambda m=message: self.peers.get(m.worker), "the worker that says hello")
                    peer.line = line
                assert peer is not None
                with self._lock:
                    peer.heard.append(message)
