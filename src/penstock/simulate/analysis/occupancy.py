"""Devices held and jobs waiting over time, put together from when jobs came, started and ended."""

from dataclasses import dataclass

import numpy as np

from penstock.policies import Floats
from penstock.simulate.analysis.observed import Observed


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Between ``at[i]`` and ``at[i + 1]`` ``held[i]`` devices are in use and ``waiting[i]`` jobs wait.

    ``smallest[i]`` is the fewest devices that one of those asks for.
    """

    at: Floats
    held: Floats
    waiting: Floats
    smallest: Floats
    devices: int

    @property
    def seconds(self) -> Floats:
        return np.diff(self.at)

    @property
    def used(self) -> float:
        """The part of all device-time that was held."""
        span = self.devices * float(self.seconds.sum())
        return float((self.held * self.seconds).sum()) / span if span else float("nan")

    @property
    def waiting_s(self) -> float:
        """Seconds that jobs waited in all."""
        return float((self.waiting * self.seconds).sum())

    @property
    def waited_though_fitting(self) -> float:
        """The part of all waiting in which somebody who waited would have fitted into what was free."""
        return self._waited(self.devices - self.held >= self.smallest)

    @property
    def waited_fragmented(self) -> float:
        """The part of all waiting in which devices were free, but fewer than anybody who waited asked for."""
        free = self.devices - self.held
        return self._waited((free > 0) & (free < self.smallest))

    def _waited(self, where: np.ndarray) -> float:
        return float((self.waiting * self.seconds)[where].sum()) / self.waiting_s if self.waiting_s else 0.0

    def by_hour(self) -> Floats:
        """The part of the devices that was held in each hour of the day, of the time that the log counts in."""
        share = np.zeros(24)
        for hour in range(24):
            share[hour] = _inside(self.at, self.held, hour) / max(_inside(self.at, np.ones(len(self.held)), hour), 1e-9)
        return share / self.devices


def occupancy_of(observed: Observed) -> Occupancy | None:
    """None where starts are not known, or how many devices there were. O(events x log events)."""
    if not observed.knows_starts or not observed.jobs:
        return None
    holds = np.array([hold for job in observed.jobs for hold in job.holds], dtype=np.float64)
    waits = np.array(
        [(job.submitted_at, job.holds[0].since, job.asked) for job in observed.jobs if job.holds], dtype=np.float64
    )
    at = np.unique(np.concatenate([holds[:, :2].ravel(), waits[:, :2].ravel()]))
    if len(at) < 2:
        return None
    held = _level(at, holds[:, 0], holds[:, 1], holds[:, 2])
    waiting = _level(at, waits[:, 0], waits[:, 1], np.ones(len(waits)))
    devices = observed.devices or int(held.max())
    return Occupancy(at=at, held=held, waiting=waiting, smallest=_smallest(at, waits), devices=devices)


def _level(at: Floats, since: Floats, until: Floats, amount: Floats) -> Floats:
    """The sum of what lasts at each interval."""
    change = np.zeros(len(at))
    np.add.at(change, np.searchsorted(at, since), amount)
    np.add.at(change, np.searchsorted(at, until), -amount)
    return np.cumsum(change)[:-1]


def _smallest(at: Floats, waits: Floats) -> Floats:
    """The fewest devices asked for by anybody waiting; infinite where nobody does."""
    smallest = np.full(len(at) - 1, np.inf)
    begins, ends = np.searchsorted(at, waits[:, 0]), np.searchsorted(at, waits[:, 1])
    for size in np.unique(waits[:, 2])[::-1]:
        mine = waits[:, 2] == size
        change = np.zeros(len(at))
        np.add.at(change, begins[mine], 1)
        np.add.at(change, ends[mine], -1)
        smallest[np.cumsum(change)[:-1] > 0] = size
    return smallest


_HOUR, _DAY = 3600.0, 86_400.0


def _inside(at: Floats, level: Floats, hour: int) -> float:
    """The integral of a level over one hour of every day."""
    whole = np.floor(at / _DAY)
    part = np.clip(at - whole * _DAY - hour * _HOUR, 0.0, _HOUR)
    return float((level * np.diff(whole * _HOUR + part)).sum())
