"""The artifact's view of a job, and the record of what became of each."""

from collections.abc import Sequence
from dataclasses import dataclass

LEVELS = (1, 2, 4, 8, 16, 32, 64)
"""The device counts of the throughput tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactJob:
    """One line of a trace joined with its row of the throughput tables."""

    index: int
    id: str
    submitted_at: int
    iterations: int
    deadline: int | None
    """Absolute seconds; None for best effort."""
    requested: int
    """Devices of the original run; only the rigid policies look at it."""
    duration: int
    """Seconds of the original run on ``requested`` devices."""
    model: str
    batch: int
    rates: tuple[float, ...]
    """Iterations per second over LEVELS; 0.0 where the job can not run."""
    cap: int
    """The most devices ElasticFlow gives it (see ``caps.cap``)."""
    widest: int
    """The most devices every other policy gives it (see ``caps.widest``)."""

    @property
    def due(self) -> float:
        """The deadline as a number to compare with; infinite for best effort."""
        return float("inf") if self.deadline is None else float(self.deadline)

    def rate(self, width: int) -> float:
        """Iterations per second on ``width`` devices."""
        return self.rates[width.bit_length() - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOutcome:
    """What became of one job."""

    index: int
    started_at: float | None
    ended_at: float | None
    met: bool
    """It had a deadline and kept it, by the artifact's own reckoning."""
    declined: bool
    """It was turned away at arrival."""
    device_seconds: float
    rescales: int
    """How often its width changed after the start, suspensions included."""


class OutcomeRecorder:
    """Collects outcomes while a policy runs; a row is a position in the job list."""

    def __init__(self, jobs: Sequence[ArtifactJob]) -> None:
        self._jobs = jobs
        self._started: list[float | None] = [None] * len(jobs)
        self._ended: list[float | None] = [None] * len(jobs)
        self._met = [False] * len(jobs)
        self._declined = [False] * len(jobs)
        self._device_seconds = [0.0] * len(jobs)
        self._rescales = [0] * len(jobs)
        self._width = [0] * len(jobs)

    def decline(self, row: int) -> None:
        self._declined[row] = True

    def resize(self, row: int, width: int, at: float) -> None:
        """The job holds this many devices from now on."""
        if width == self._width[row]:
            return
        if self._started[row] is None:
            self._started[row] = at
        else:
            self._rescales[row] += 1
        self._width[row] = width

    def spend(self, row: int, seconds: float) -> None:
        """Time passes while the job holds its devices."""
        self._device_seconds[row] += self._width[row] * seconds

    def end(self, row: int, at: float, on_time_at: float | None = None) -> None:
        """The job is done; ``on_time_at`` is the moment compared with the deadline where that is not the end."""
        deadline = self._jobs[row].deadline
        self._ended[row] = at
        self._met[row] = deadline is not None and (at if on_time_at is None else on_time_at) <= deadline

    def outcomes(self) -> list[ReplicaOutcome]:
        """One outcome per job, in the order of the job list."""
        return [
            ReplicaOutcome(
                index=job.index,
                started_at=self._started[row],
                ended_at=self._ended[row],
                met=self._met[row],
                declined=self._declined[row],
                device_seconds=self._device_seconds[row],
                rescales=self._rescales[row],
            )
            for row, job in enumerate(self._jobs)
        ]


class ReplicaWorld:
    """What every replica keeps: the jobs, the devices, the jobs that are here, and what became of the others."""

    def __init__(self, jobs: Sequence[ArtifactJob], capacity: int, slot: int) -> None:
        self.jobs = jobs
        self.capacity = capacity
        self.slot = slot
        self.ledger = OutcomeRecorder(jobs)
        self.active: list[int] = []
