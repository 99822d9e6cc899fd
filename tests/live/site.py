"""A platform with a server that may be killed at any moment, and every process that belongs to it."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from penstock.client import Client, DataDir, ensure_server
from penstock.wire import UnavailableError
from penstock.wire.views import EventView

T = TypeVar("T")
PATIENCE_S = 180.0
OVER = frozenset({"finished", "failed", "declined", "cancelled"})


def until(probe: Callable[[], T], what: str, within_s: float = PATIENCE_S) -> T:
    """The first truthy answer."""
    deadline = time.monotonic() + within_s
    while not (found := probe()):
        assert time.monotonic() < deadline, f"waited {within_s:g} s for {what}"
        time.sleep(0.1)
    return found


@dataclass(frozen=True, slots=True, order=True)
class WorkerProcess:
    run_id: str
    worker: str
    pid: int


class Site:
    """One data directory under ``folder``; processes are found by this path and by nothing else."""

    def __init__(self, folder: Path, slots: int) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._slots = slots
        self._client: Client | None = None
        self._over: dict[str, str] = {}

    def start(self) -> Client:
        """A server, if none runs, and a new connection to it."""
        self._hang_up()
        self._client = ensure_server(self.data, options=self.options(), within_s=PATIENCE_S)
        return self._client

    def options(self) -> list[str]:
        """Of the server's command line."""
        return ["--slots", str(self._slots)]

    def ask(self, question: Callable[[Client], T]) -> T:
        """Ask the server; if it died over it, ask the next one the same."""
        try:
            return question(self._client or self.start())
        except UnavailableError:
            return question(self.start())

    def states(self) -> dict[str, str]:
        """Every job's state. An outcome that was seen once must be seen for ever."""
        found = {job.id: job.state for job in self.ask(lambda client: client.jobs(limit=1000)).jobs}
        for job_id, state in self._over.items():
            assert found.get(job_id) == state, f"{job_id} was {state} and is {found.get(job_id)}"
        self._over.update({job_id: state for job_id, state in found.items() if state in OVER})
        return found

    def events(self) -> list[EventView]:
        events: list[EventView] = []
        while page := self._events_after(len(events)):
            events += page
        return events

    def server_pid(self) -> int | None:
        """The server's process, while there is one."""
        address = DataDir(self.data).address()
        return address.pid if address and address.pid in {process.pid for process in self.processes()} else None

    def of_jobs(self) -> list[psutil.Process]:
        """Processes that are neither the server nor a helper that it keeps and that ends with it."""
        server = self.server_pid()
        found = []
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                if server not in (process.pid, process.ppid()):
                    found.append(process)
        return found

    def kill_server(self) -> None:
        if (pid := self.server_pid()) is not None:
            os.kill(pid, signal.SIGKILL)
            until(lambda: not DataDir(self.data).is_served(), "the end of a killed server")

    def stop_server(self) -> None:
        """As a person would."""
        address = DataDir(self.data).address()
        assert address is not None
        os.kill(address.pid, signal.SIGTERM)
        until(lambda: not self.processes(), "the server to end by itself")

    def workers(self) -> list[WorkerProcess]:
        """Workers that live now."""
        alive = {process.pid for process in self.processes()}
        files = sorted((self.data / "runs").glob("*/reports.jsonl"))
        started = [
            WorkerProcess(file.parent.name, report["worker"], report["pid"])
            for file in files
            for report in _reports(file)
            if report["kind"] == "worker_started"
        ]
        return sorted(worker for worker in started if worker.pid in alive)

    def agents(self) -> list[tuple[str, int]]:
        """Runs with the process that looks after them."""
        alive = {process.pid for process in self.processes()}
        found = []
        for file in sorted((self.data / "runs").glob("*/agent.json")):
            with contextlib.suppress(OSError, ValueError):
                found.append((file.parent.name, int(json.loads(file.read_text())["pid"])))
        return [(run_id, pid) for run_id, pid in found if pid in alive]

    def processes(self) -> list[psutil.Process]:
        """Everything that carries this site's directory in its command line or environment."""
        return [process for process in psutil.process_iter() if process.pid != os.getpid() and self._owns(process)]

    def close(self) -> None:
        """Leave nothing behind, however the test ended."""
        self._hang_up()
        deadline = time.monotonic() + 30.0
        while (left := self.processes()) and time.monotonic() < deadline:
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=1.0)

    def _owns(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            traces = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            return False
        return any(str(self.data) in trace for trace in traces)

    def _events_after(self, seq: int) -> list[EventView]:
        return self.ask(lambda client: client.events(after=seq, limit=1000)).events

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _reports(file: Path) -> list[dict[str, Any]]:
    """What a run told so far; it may be forgotten, or in the middle of a line, at this moment."""
    with contextlib.suppress(OSError):
        *lines, _ = file.read_text().split("\n")
        return [json.loads(line) for line in lines]
    return []
