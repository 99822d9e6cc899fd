"""The directory of a run: what lies where, and whether somebody lives in it."""

import fcntl
import json
import os
import tempfile
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from penstock.backends.agent.environment import RunPaths
from penstock.backends.agent.memory_place import give_memory_back
from penstock.backends.agent.outputs import MERGED_LOG, worker_directory
from penstock.backends.agent.ownership import let_through
from penstock.core import CodecError, Launch, RunState, build, plain
from penstock.tools import UnixUser, file_lock, remove_tree, write_atomically

AGENT_PROGRAM = "penstock.backends.runs.agent"
"""What the command line of every agent names, and of nobody who is none of ours."""
REQUESTS_SOCKET = "agent.sock"
"""Where servers reach the agent."""
WORKERS_SOCKET = "workers.sock"
"""Where workers do."""
MARKS = ".runs"
"""Beside the directories of runs, one empty file for each that still is one."""
LONGEST_SOCKET_PATH = 100
"""Bytes of a unix socket's path; the kernel takes 107, and some of our neighbours append to it."""


class RunDir:
    """Paths of one run. Holds no state: any number of these may look at the same directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.launch_file = path / "launch.json"
        self.agent_file = path / "agent.json"
        self.lock_file = path / "agent.lock"
        self.agent_log = path / "agent.log"
        self.journal = path / "reports.jsonl"
        self.merged_log = path / MERGED_LOG
        self.job = path / "job"
        self.progress = self.job / "progress"
        self.plan_file = path / "plan.json"
        self.rendezvous = path / "rendezvous"
        self.usage = path / "usage.json"
        self.usage_curves = path / "usage.jsonl"
        self.metrics = path / "metrics.jsonl"
        self.watch_file = path / "watch.json"
        self.stacks = path / "stacks"
        self.state_file = path / "state"
        self.secret_file = path / "secret"
        self.secrets = path / "secrets"
        self.checkpoints = self.job / "checkpoints"
        self.devices = path.parent.parent / "devices"
        self.mark = path.parent / MARKS / path.name
        """There as long as the directory holds a run: output of runs that were forgotten is not looked through."""

    @property
    def run_id(self) -> str:
        return self.path.name

    def worker(self, worker_id: str) -> Path:
        """Where one worker's output goes."""
        return worker_directory(self.path, worker_id)

    @property
    def paths(self) -> RunPaths:
        """What workers see of this."""
        return RunPaths(directory=self.path, checkpoints=self.checkpoints, progress=self.progress, plan=self.plan_file)

    def read_launch(self) -> Launch | None:
        """What is to run here; nothing if the directory holds no run (any more) or one of an earlier version."""
        try:
            launch: Launch = build(Launch, json.loads(self.launch_file.read_text()))
        except (OSError, ValueError, CodecError):
            return None
        return launch

    def write_launch(self, launch: Launch) -> None:
        """Say what is to run, before anyone runs it; the last agent's particulars become void."""
        self.agent_file.unlink(missing_ok=True)
        self.state_file.unlink(missing_ok=True)
        self.mark.parent.mkdir(exist_ok=True, mode=0o700)
        self.mark.touch(0o600)
        write_atomically(self.launch_file, json.dumps(plain(launch)), durable=True, mode=0o600)

    def read_state(self) -> RunState:
        """Where the run stands, as its agent last said; one that has said nothing yet is starting."""
        if not self.is_alive():
            return RunState.ENDED
        try:
            return RunState(self.state_file.read_text().partition("\n")[0])
        except (FileNotFoundError, ValueError):
            return RunState.STARTING

    def read_reason(self) -> str:
        """Why the run is not further, in the words of its engine."""
        try:
            return self.state_file.read_text().partition("\n")[2]
        except OSError:
            return ""

    def read_agent(self) -> dict[str, Any] | None:
        """The agent's pid and socket, once an agent has started for the present launch."""
        try:
            found: dict[str, Any] = json.loads(self.agent_file.read_text())
        except (OSError, ValueError):
            return None
        sane = isinstance(found, dict) and isinstance(found.get("pid"), int) and isinstance(found.get("socket"), str)
        return found if sane else None

    def has_begun(self) -> bool:
        """Whether an agent has started for the present launch; workers are started only after it has said so."""
        return self.agent_file.exists()

    def is_alive(self) -> bool:
        """Whether an agent holds the lock. A pid could be somebody else's by now; a lock cannot."""
        try:
            handle = os.open(self.lock_file, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def launching(self) -> AbstractContextManager[None]:
        """One launcher at a time, or two servers with the same run would take each other's agent for their own."""
        return file_lock(self.path / "launch.lock")

    def forget(self) -> None:
        """Remove what makes this a run; output and checkpoints stay."""
        agent = self.read_agent() or {}
        for path in (
            self.launch_file, self.agent_file, self.lock_file, self.journal, self.progress, self.agent_log, self.usage,
            self.state_file, self.secret_file, self.plan_file,
        ):  # fmt: skip
            path.unlink(missing_ok=True)
        for folder in (self.rendezvous, self.secrets):
            with suppress(OSError):
                remove_tree(folder)
        give_memory_back(self.path)
        discard_sockets(Path(agent.get("socket", self.path / REQUESTS_SOCKET)).parent, self.path)
        self.mark.unlink(missing_ok=True)


def marked_runs(root: Path) -> list[RunDir]:
    """The runs under a directory, in order of their ids, however much output of earlier ones lies beside them.

    Directories of versions that set no marks are looked through once.
    """
    marks = root / MARKS
    if not marks.exists():
        earlier = [path.parent.name for path in root.glob("*/launch.json")]
        marks.mkdir(mode=0o700)
        for run_id in earlier:
            (marks / run_id).touch(0o600)
    found = [RunDir(root / mark.name) for mark in sorted(marks.iterdir())]
    return [run_dir for run_dir in found if run_dir.launch_file.exists()]


def hold_lock(run_dir: RunDir, patience_s: float = 1.0) -> int | None:
    """Take the agent's lock for the rest of this process's life; nothing if another agent has it.

    Waits a moment: someone who only asks :meth:`RunDir.is_alive` holds a shared lock for an instant.
    """
    handle = os.open(run_dir.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(handle)
                return None
            time.sleep(0.01)


def socket_directory(run_dir: Path, user: UnixUser | None = None) -> Path:
    """Where the agent's sockets are: in the run's directory unless the kernel cannot take so long a path."""
    if len(os.fsencode(run_dir / WORKERS_SOCKET)) > LONGEST_SOCKET_PATH:
        made = Path(tempfile.mkdtemp(prefix="penstock-"))
        let_through(made, user)
        return made
    for name in (REQUESTS_SOCKET, WORKERS_SOCKET):
        (run_dir / name).unlink(missing_ok=True)
    return run_dir


def discard_sockets(directory: Path, run_dir: Path) -> None:
    """Remove the sockets, and the directory that was made only for them."""
    with suppress(OSError):
        for name in (REQUESTS_SOCKET, WORKERS_SOCKET):
            (directory / name).unlink(missing_ok=True)
        if directory != run_dir:
            directory.rmdir()
