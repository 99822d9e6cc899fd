"""Fairness of tenants over a whole run and over its days, beside that of the last day which policies go by.

A tenant deserves its share of the devices that work while its jobs could use as many, and what they could use otherwise
(the measure of :mod:`penstock.scheduler`). What was used and deserved is added up between any two events while there
are at least two tenants; a day is judged at every full hour.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.policies import Floats
from penstock.scheduler import Scheduler

_HOUR_S = 3600.0
_HOURS = 24
_JUDGED_S = 3600.0
"""Device-seconds that a tenant has to deserve in a day for that day to say anything about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantOutcome:
    """What a tenant used and deserved, in device-seconds while there were several tenants."""

    tenant: str
    used_s: float
    deserved_s: float
    fairness: float
    """Used over deserved, over the whole run."""
    worst_day: float
    """The least of the same over any 24 hours that end on a full hour; over the whole run if that is shorter."""


class RunFairness:
    """Adds up what tenants hold and deserve; costs next to nothing while there is one tenant."""

    def __init__(self) -> None:
        self._tenants: set[str] = set()
        self._as_of = math.nan
        self._total: Floats = np.zeros((2, 0))
        """Device-seconds used and deserved so far, by tenant."""
        self._hours: deque[Floats] = deque(maxlen=_HOURS + 1)
        """The totals at the last full hours, that of a day ago first."""
        self._next_hour = math.inf
        self._worst: Floats = np.zeros(0)

    def know(self, tenant: str) -> None:
        """A job of this tenant is submitted."""
        self._tenants.add(tenant)

    def count_until(self, at: float, scheduler: Scheduler) -> None:
        """Time has passed since the last event, and nothing else has happened yet."""
        if not math.isfinite(at):
            return
        if len(self._tenants) < 2 or not at > self._as_of:
            if not at <= self._as_of:
                self._as_of, self._next_hour = at, (math.floor(at / _HOUR_S) + 1) * _HOUR_S
            return
        held, deserved = scheduler.tenant_flows()
        if len(held) != self._total.shape[1]:
            self._total = _widened(self._total, len(held))
        if not self._hours:
            self._hours.append(self._total.copy())
        while at >= self._next_hour:
            self._advance(held, deserved, self._next_hour)
            self._close_hour()
        self._advance(held, deserved, at)

    def outcomes(self, scheduler: Scheduler) -> list[TenantOutcome]:
        """One for each tenant that deserved anything."""
        if not self._tenants:
            return []
        self.count_until(scheduler.now, scheduler)
        (used, deserved), names = self._total, scheduler.tenants().names
        worst = np.append(self._worst, np.full(len(used) - len(self._worst), math.inf))
        return [
            TenantOutcome(
                tenant=names[at], used_s=float(used[at]), deserved_s=float(deserved[at]),
                fairness=(whole := float(used[at] / deserved[at])),
                worst_day=float(worst[at]) if math.isfinite(worst[at]) else whole,
            )
            for at in np.flatnonzero(deserved > 0).tolist()
        ]  # fmt: skip

    def _advance(self, held: Floats, deserved: Floats, at: float) -> None:
        lasted = at - self._as_of
        self._total[0] += held * lasted
        self._total[1] += deserved * lasted
        self._as_of = at

    def _close_hour(self) -> None:
        self._hours.append(self._total.copy())
        self._next_hour += _HOUR_S
        if len(self._hours) <= _HOURS:
            return
        used, deserved = self._total - _widened(self._hours[0], self._total.shape[1])
        self._worst = np.append(self._worst, np.full(len(used) - len(self._worst), math.inf))
        judged = deserved >= _JUDGED_S
        self._worst[judged] = np.minimum(self._worst[judged], used[judged] / deserved[judged])


def least_of(values: Sequence[float], *, default: float = math.nan) -> float:
    """The least of some values; NaN of none."""
    return min(values, default=default)


def _widened(columns: Floats, tenants: int) -> Floats:
    return np.pad(columns, ((0, 0), (0, tenants - columns.shape[1])))
