"""Long-term fairness: the device-time that tenants and jobs used, over the device-time they deserved.

The measure is Astraea's (Ye et al., TPDS 2021). A tenant is entitled to its share of the devices that work; it
deserves that while its jobs could use as many, and what they could use otherwise. A job deserves an equal part of what
its tenant is entitled to, and no more than it could use. Below one sharing is a loss, above one a benefit.

Between two events nothing of this changes, so the integrals are exact: they are brought up to date before every event.
Those of tenants fall into hours of which the last day counts, so that neither credit nor debt lasts for ever. What
jobs deserve is integrated once for all jobs of a tenant that could use as many devices, so an event costs no work per
job.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from penstock.policies import Floats, Ints

BUCKET_S = 3600.0
BUCKETS = 24


class TenantFlows(NamedTuple):
    """Devices of every tenant at one moment: held, deserved, what its share entitles it to, and deserved by its jobs
    without a deadline alone."""

    used: Floats
    deserved: Floats
    entitled: Floats
    best_effort: Floats


_FLOWS = len(TenantFlows._fields)


class Integrals(NamedTuple):
    """What is counted up to a moment; never changed, only replaced."""

    as_of: float
    """Not a number before anything happened."""
    hour: Floats
    """Device-seconds of this hour, by flow and tenant."""
    past: tuple[Floats, ...]
    """Those of the hours before it, the last one first."""
    parts: Floats
    """Device-seconds that a job deserved which was there all the time, by tenant and by the devices it could use."""


class FairnessAccount:
    """What tenants hold and could use now, and the device-seconds that came of it."""

    def __init__(self) -> None:
        self.jobs: Floats = np.zeros(0)
        self.held: Floats = np.zeros(0)
        self.useful: Floats = np.zeros(0)
        self.best_effort: Floats = np.zeros(0)
        """Of the useful devices those of jobs without a deadline."""
        self._sizes: Ints = np.zeros(0, dtype=np.int64)
        """Numbers of devices that jobs could use; a column of the parts for each."""
        self.integrals = Integrals(math.nan, np.zeros((_FLOWS, 0)), (), np.zeros((0, 0)))

    def copy(self) -> "FairnessAccount":
        other = FairnessAccount()
        other.jobs, other.held, other.useful = self.jobs.copy(), self.held.copy(), self.useful.copy()
        other.best_effort = self.best_effort.copy()
        other._sizes, other.integrals = self._sizes, self.integrals
        return other

    @property
    def as_of(self) -> float:
        return self.integrals.as_of

    def count(self, tenant: int, *, jobs: int = 0, held: int = 0, useful: int = 0, best_effort: int = 0) -> None:
        """A tenant has so many more jobs, which hold and could use so many more devices."""
        self.jobs[tenant] += jobs
        self.held[tenant] += held
        self.useful[tenant] += useful
        self.best_effort[tenant] += best_effort

    def flows(self, entitled: Floats) -> TenantFlows:
        """Devices that every tenant holds, deserves and is entitled to now."""
        deserved, best_effort = np.minimum(self.useful, entitled), np.minimum(self.best_effort, entitled)
        return TenantFlows(self.held, deserved, entitled, best_effort)

    def advance(self, now: float, entitled: Floats) -> None:
        """Time has passed, and nothing else has happened yet."""
        self.integrals = self._at(now, entitled)

    def window(self, now: float, entitled: Floats) -> TenantFlows:
        """Device-seconds in the day that ends now, if nothing has happened since they were counted."""
        counted = self._at(now, entitled)
        return TenantFlows(*sum(counted.past, counted.hour))

    def deserved(self, now: float, entitled: Floats, tenant: Ints, useful: Ints) -> Floats:
        """What jobs deserved that were there all the time; only differences of it mean something."""
        column = self._sizes.searchsorted(useful)
        counted = self.integrals.parts[tenant, column]
        if now > self.as_of:
            part = entitled[tenant] / np.maximum(self.jobs[tenant], 1.0)
            counted = counted + np.minimum(part, self._sizes[column]) * (now - self.as_of)
        return np.asarray(counted)

    def deserved_by(self, tenant: int, useful: int) -> float:
        """The same for one job, as far as it is counted."""
        self.know(useful)
        return float(self.integrals.parts[tenant, self._sizes.searchsorted(useful)])

    def add_tenant(self) -> None:
        """One more tenant, of whom nothing is known."""
        columns = (self.jobs, self.held, self.useful, self.best_effort)
        self.jobs, self.held, self.useful, self.best_effort = (np.append(each, 0.0) for each in columns)
        counted = self.integrals
        self.integrals = counted._replace(
            hour=_wider(counted.hour), past=tuple(map(_wider, counted.past)), parts=_wider(counted.parts.T).T
        )

    def to_data(self) -> dict[str, Any]:
        """What cannot be derived from the jobs that are there."""
        as_of, hour, past, parts = self.integrals
        return {
            "as_of": as_of if math.isfinite(as_of) else None,
            "hours": [each.tolist() for each in (hour, *past)],
            "sizes": self._sizes.tolist(),
            "parts": parts.tolist(),
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Take up what was counted before."""
        tenants = len(self.jobs)
        hour, *past = (_with_all_flows(each, tenants) for each in data["hours"])
        self._sizes = np.array(data["sizes"], dtype=np.int64)
        parts = np.array(data["parts"], dtype=np.float64).reshape(tenants, len(self._sizes))
        self.integrals = Integrals(math.nan if data["as_of"] is None else data["as_of"], hour, tuple(past), parts)

    def know(self, useful: int) -> None:
        """There is a job that could use so many devices."""
        at = int(self._sizes.searchsorted(useful))
        if at == len(self._sizes) or self._sizes[at] != useful:
            self._sizes = np.insert(self._sizes, at, useful)
            self.integrals = self.integrals._replace(parts=np.insert(self.integrals.parts, at, 0.0, axis=1))

    def _at(self, now: float, entitled: Floats) -> Integrals:
        since, hour, past, parts = self.integrals
        if not now > since:
            return self.integrals._replace(as_of=now) if math.isnan(since) else self.integrals
        devices = np.array(self.flows(entitled))
        part = entitled / np.maximum(self.jobs, 1.0)
        parts = parts + np.minimum(part[:, np.newaxis], self._sizes) * (now - since)
        if since // BUCKET_S == now // BUCKET_S:
            return Integrals(now, hour + devices * (now - since), past, parts)
        hours = deque((hour, *past), maxlen=BUCKETS)
        since = max(since, (math.floor(now / BUCKET_S) - BUCKETS) * BUCKET_S)
        while since < (until := (math.floor(since / BUCKET_S) + 1) * BUCKET_S) <= now:  # no hour fits far enough ahead
            hours[0] = hours[0] + devices * (until - since)
            hours.appendleft(np.zeros_like(devices))
            since = until
        hours[0] = hours[0] + devices * (now - since)
        return Integrals(now, hours[0], tuple(hours)[1:], parts)


def _wider(columns: Floats) -> Floats:
    return np.pad(columns, ((0, 0), (0, 1)))


def _with_all_flows(hour: Sequence[Sequence[float]], tenants: int) -> Floats:
    """An hour as it was written down; earlier versions counted fewer flows."""
    counted = np.array(hour, dtype=np.float64).reshape(len(hour), tenants)
    return np.pad(counted, ((0, _FLOWS - len(counted)), (0, 0)))
