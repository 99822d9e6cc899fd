"""Looks at what all workers of a run are doing, kept beside its output, in a few seconds whatever state they are in.

Elastic workers are asked over their lines. One that does not answer holds its interpreter's lock in native code: it is
sent a signal on which Python writes its stacks to the worker's own output. Of other processes ``py-spy`` tells, where
it is installed and may; where not, the kernel still says what they wait in.
"""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.backends.agent.states import Member
from penstock.backends.agent.watch.stack_summary import as_text, position, read_spy, summary
from penstock.core import AgentMessage, StackOrder, StacksTaken, ThreadStack
from penstock.tools import write_atomically

ANSWER_S = 2.0
"""How long a worker may take to answer."""
SPY_S = 3.0
DUMP_S = 5.0
"""How long the stacks that a worker writes to its output may be on their way."""
MOST_LOOKS = 20
"""Of one run that are kept; after so many only their summaries are told."""
_POLL_S = 0.02
_UNANSWERED = "does not answer: native code holds its interpreter (Python writes its stacks to the worker's output)"
_ELSEWHERE = "is on another machine and does not use penstock.elastic, so it cannot be looked at"
_HIDDEN = "shows no Python stack (install py-spy to see it)"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackLook:
    """What was seen: one line, where the rest is, and where each worker was that could be seen."""

    text: str
    path: str
    positions: Mapping[str, tuple[str, ...]]


class LookedAt(Protocol):
    """What a look needs of whoever keeps the workers."""

    def send(self, worker_id: str, message: AgentMessage) -> None: ...

    def dump_stacks(self, worker_id: str) -> None:
        """Have a process write its stacks to its own output."""
        ...


class StackLooks:
    """One look at a time; late answers are passed over. ``is_local``: workers are processes of this machine."""

    def __init__(self, directory: Path, workers: LookedAt, *, is_local: bool = True) -> None:
        self.directory = directory
        self._workers = workers
        self._is_local = is_local
        self._number = 0
        self._answers: dict[str, tuple[ThreadStack, ...]] = {}
        self._dumping: dict[str, float] = {}
        self.lines: list[str] = []
        """What the last looks said, the latest last, for the end of a run that hangs."""

    def is_dumping(self, worker_id: str) -> bool:
        """Whether what a worker writes now is its stacks, which we asked for, and no sign of life."""
        return time.monotonic() < self._dumping.get(worker_id, 0.0)

    def answer(self, worker_id: str, message: StacksTaken) -> None:
        if message.look == self._number:
            self._answers[worker_id] = message.threads

    async def take(self, members: Iterable[Member]) -> StackLook:
        """Look at all of them together."""
        self._number += 1
        self._answers = {}
        present = [member for member in members if member.pid is not None]
        talking = [member.worker.id for member in present if member.elastic]
        plain = [member for member in present if not member.elastic]
        spied = {member.worker.id: _Spy(member.pid or 0) for member in plain if self._is_local}
        for worker_id in talking:
            self._workers.send(worker_id, StackOrder(look=self._number))
        await _until(lambda: all(one in self._answers for one in talking), ANSWER_S)
        silent = [one for one in talking if one not in self._answers]
        for worker_id in silent:
            self._dumping[worker_id] = time.monotonic() + DUMP_S
            self._workers.dump_stacks(worker_id)
        await _until(lambda: all(spy.is_done for spy in spied.values()), SPY_S)
        found = {one: spy.threads() for one, spy in spied.items()}
        seen = self._answers | {one: threads for one, threads in found.items() if threads}
        unseen = dict.fromkeys(silent, _UNANSWERED) | {member.worker.id: _ELSEWHERE for member in plain}
        unseen |= {one: spy.words() for one, spy in spied.items()}
        return self._kept(seen, {one: why for one, why in unseen.items() if one not in seen})

    def _kept(self, seen: dict[str, tuple[ThreadStack, ...]], unseen: dict[str, str]) -> StackLook:
        text = summary(seen, unseen)
        self.lines = [*self.lines[-1:], text] if text not in self.lines else self.lines
        place = self.directory / str(self._number)
        if self._number <= MOST_LOOKS:
            files = {worker: as_text(threads) for worker, threads in seen.items()}
            files |= {worker: f"{why}\n" for worker, why in unseen.items()}
            with suppress(OSError):
                place.mkdir(parents=True, exist_ok=True)
                for worker, content in files.items():
                    write_atomically(place / f"{worker}.txt", content)
                write_atomically(place / "summary.txt", f"{text}\n")
        positions = {worker: position(threads) for worker, threads in seen.items()}
        return StackLook(text=text, path=str(place) if place.exists() else "", positions=positions)


class _Spy:
    """py-spy at work on one process, without a thread: asked whether it is done, and ended if it takes too long."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._until = time.monotonic() + SPY_S
        self._process: subprocess.Popen[bytes] | None = None
        if program := shutil.which("py-spy"):
            with suppress(OSError):
                self._process = subprocess.Popen(
                    [program, "dump", "--nonblocking", "--full-filenames", "--pid", str(pid)],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                )  # fmt: skip

    @property
    def is_done(self) -> bool:
        return self._process is None or self._process.poll() is not None or time.monotonic() > self._until

    def threads(self) -> tuple[ThreadStack, ...]:
        """What it saw; nothing if it was not there, was not allowed, or did not end."""
        if self._process is None or self._process.stdout is None:
            return ()
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        with self._process.stdout as output:
            return read_spy(output.read().decode(errors="replace"))

    def words(self) -> str:
        state = _kernel_state(self._pid)
        return f"{_HIDDEN}; {state}" if state else _HIDDEN


def _kernel_state(pid: int) -> str:
    """What the kernel says of a process: asleep, in which call, or running."""
    with suppress(OSError, IndexError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        waits = Path(f"/proc/{pid}/wchan").read_text().strip("0\n ")
        return f"the kernel says {state}{f' in {waits}' if waits else ''}"
    return ""


async def _until(condition: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not condition() and time.monotonic() < deadline:
        await asyncio.sleep(_POLL_S)
