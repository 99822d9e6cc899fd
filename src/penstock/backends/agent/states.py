"""The values a supervisor reasons about: groups of workers, the processes in them, and how a run ends."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from penstock.core import AgentMessage, DeviceSlot, PenstockError, ReportKind, Worker


class StaleCommandError(PenstockError):
    """A command that comes after one that overtook it."""


class RunPhase(StrEnum):
    """What the supervisor waits for."""

    RUNNING = "running"
    RESTARTING = "restarting"  # the old group's processes to end, then the next group starts
    RELEASED = "released"  # the worker without a device to end; the others have ended well
    ENDING = "ending"  # all processes to end, then the outcome is told
    OVER = "over"


@dataclass(slots=True)
class WorkerGroup:
    """One generation of workers, in the order of their ranks: what is announced to them as a world.

    ``restarts_others``: it follows a group whose processes were ended for it, and nobody has been told yet.
    ``interim``: it only lets leavers go, for the next group waits for devices; nobody is told of it. What training
    stood still for it is in the next group's ``owed_s``.
    """

    generation: int
    workers: tuple[Worker, ...]
    since: float
    survivors: tuple[str, ...] = ()
    announced: bool = False
    met: bool = False
    joined: bool = False
    in_place: bool = False
    restarts_others: bool = False
    interim: bool = False
    owed_s: float = 0.0

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(worker.id for worker in self.workers)

    @property
    def size(self) -> int:
        return len(self.workers)

    def without(self, worker_id: str) -> tuple[Worker, ...]:
        return tuple(worker for worker in self.workers if worker.id != worker_id)

    def rank_of(self, worker_id: str) -> int:
        return self.ids.index(worker_id)


@dataclass(slots=True)
class Member:
    """One live process. ``asked``: it was told to go, so its end is no accident."""

    worker: Worker
    rank: int
    generation: int
    pid: int | None = None
    elastic: bool = False
    ready: bool = False
    asked: bool = False
    done: bool = False
    terminate_at: float | None = None
    kill_at: float | None = None


@dataclass(frozen=True, slots=True)
class Exit:
    """How a worker's process ended, with its last words; ``reason`` where an engine has ended it."""

    code: int
    signal: int | None = None
    tail: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunEnding:
    """The last report of a run."""

    kind: ReportKind
    said: dict[str, Any] = field(default_factory=dict)


class RunHost(Protocol):
    """What a supervisor can have done where its workers run: a process table, pods, steps of a batch system.

    The supervisor never does anything itself, so a test can watch every decision.
    """

    def now(self) -> float:
        """Seconds on a clock that never jumps."""
        ...

    def spawn(self, world: WorkerGroup, worker: Worker, restarts: int) -> None:
        """Start a process for a worker; ``started`` or ``exited`` follows."""
        ...

    def terminate(self, member: Member) -> None:
        """Ask a process to end."""
        ...

    def kill(self, member: Member) -> None:
        """End a process and all it started."""
        ...

    def send(self, worker_id: str, message: AgentMessage) -> None:
        """Tell a worker something over its connection, if it has one."""
        ...

    def report(self, kind: ReportKind, **said: Any) -> None:
        """Tell the server something, durably."""
        ...

    def look(self) -> None:
        """See what all processes are doing; ``looked`` follows within a few seconds."""
        ...

    def sweep(self) -> None:
        """End whatever the workers left behind."""
        ...

    def is_free(self, device: DeviceSlot) -> bool:
        """Whether no other run has a worker on a device."""
        ...

    def rendezvous(self, world: WorkerGroup) -> str:
        """A fresh meeting place for the members of a world."""
        ...


def in_rank_order(workers: tuple[Worker, ...]) -> tuple[Worker, ...]:
    return tuple(sorted(workers, key=lambda worker: worker.rank))
