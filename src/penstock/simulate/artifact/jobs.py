"""The artifact's view of a job, and the record of what became of each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
class Outcome:
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


class Ledger:
    """Collects outcomes while a policy runs; rows are positions in the job list."""

    def __init__(self, jobs: Sequence[ArtifactJob]) -> None:
        self._jobs = jobs
        self._started: list[float | None] = [None] * len(jobs)
        self._ended: list[float | None] = [None] * len(jobs)
        self._met = [False] * len(jobs)
        self._declined = [False] * len(jobs)
        self._device_seconds = np.zeros(len(jobs))
        self._rescales = np.zeros(len(jobs), dtype=np.int64)
        self._width = np.zeros(len(jobs), dtype=np.int64)

    def decline(self, row: int) -> None:
        self._declined[row] = True

    def resize(self, rows: npt.NDArray[np.int64], widths: npt.NDArray[np.int64], at: float) -> None:
        """These rows hold these many devices from now on."""
        changed = self._width[rows] != widths
        for row in rows[changed].tolist():
            if self._started[row] is None:
                self._started[row] = at
            else:
                self._rescales[row] += 1
        self._width[rows] = widths

    def spend(self, rows: npt.NDArray[np.int64], seconds: float) -> None:
        """Time passes while these rows hold their devices."""
        self._device_seconds[rows] += self._width[rows] * seconds

    def end(self, row: int, at: float, on_time_at: float) -> None:
        """The job is done; ``on_time_at`` is the moment the artifact compares with the deadline."""
        job = self._jobs[row]
        self._ended[row] = at
        self._met[row] = job.deadline is not None and on_time_at <= job.deadline

    def outcomes(self) -> list[Outcome]:
        """One outcome per job, in the order of the job list."""
        return [
            Outcome(
                index=job.index,
                started_at=self._started[row],
                ended_at=self._ended[row],
                met=self._met[row],
                declined=self._declined[row],
                device_seconds=float(self._device_seconds[row]),
                rescales=int(self._rescales[row]),
            )
            for row, job in enumerate(self._jobs)
        ]
