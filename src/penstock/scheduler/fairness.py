"""Long-term fairness: the device-time that tenants and jobs used, over the device-time they deserved.

The measure is Astraea's (Ye et al., TPDS 2021). A tenant is entitled to its share of the devices that work; it
deserves that while its jobs could use as many, and what they could use otherwise. A job deserves an equal part of what
its tenant is entitled to, and no more than it could use. Below one sharing is a loss, above one a benefit.

Between two events nothing of this changes, so the integrals are exact: they are brought up to date before every event.
Those of tenants fall into hours of which the last day counts, so that neither credit nor debt lasts for ever.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from penstock.policies import Floats
from penstock.scheduler.table import JobTable

BUCKET_S = 3600.0
BUCKETS = 24


class TenantFlows(NamedTuple):
    """Devices of every tenant at one moment: held, deserved, and what its share entitles it to."""

    used: Floats
    deserved: Floats
    entitled: Floats


def tenant_flows(table: JobTable, entitled: Floats) -> TenantFlows:
    """What the jobs of a table make of the devices that every tenant is entitled to."""
    used = slice(len(table))
    tenant = table.tenant[used]
    held: Floats = np.bincount(tenant, weights=table.width[used], minlength=len(entitled)).astype(np.float64)
    useful = np.bincount(tenant, weights=table.most_useful(used), minlength=len(entitled))
    return TenantFlows(held, np.minimum(useful, entitled), entitled)


def deserved_devices(table: JobTable, used: Any, entitled: Floats) -> Floats:
    """Devices that each of ``used`` rows deserves: an equal part of its tenant's, as far as it could use them."""
    jobs = np.bincount(table.tenant[: len(table)], minlength=len(entitled))
    part = entitled / np.maximum(jobs, 1)
    return np.asarray(np.minimum(part[table.tenant[used]], table.most_useful(used)))


class FairnessAccount:
    """Device-seconds of every tenant over the last day, as hours in a ring."""

    def __init__(self) -> None:
        self.as_of = math.nan
        """Up to when they are counted; not a number before anything happened."""
        self._sums: Floats = np.zeros((BUCKETS, len(TenantFlows._fields), 0))

    def copy(self) -> "FairnessAccount":
        other = FairnessAccount()
        other.as_of, other._sums = self.as_of, self._sums.copy()
        return other

    def advance(self, now: float, flows: TenantFlows) -> None:
        """Time has passed in which everybody held, deserved and was entitled to that many devices."""
        since, self.as_of = self.as_of, now
        if not math.isfinite(since) or now <= since:
            return
        self._make_room(len(flows.used))
        devices = np.stack(flows)
        if now - since >= BUCKETS * BUCKET_S:
            self._sums[:], since = 0.0, now - BUCKETS * BUCKET_S
        while since < now:
            hour = math.floor(since / BUCKET_S)
            until = min(now, (hour + 1) * BUCKET_S)
            if until == (hour + 1) * BUCKET_S:
                self._sums[(hour + 1) % BUCKETS] = 0.0
            self._sums[hour % BUCKETS] += devices * (until - since)
            since = until

    def projected(self, now: float, flows: TenantFlows) -> TenantFlows:
        """Device-seconds in the window that ends now, if nothing has happened since they were counted."""
        later = self.copy()
        later.advance(now, flows)
        later._make_room(len(flows.used))
        return TenantFlows(*later._sums.sum(axis=0))

    def to_data(self) -> dict[str, Any]:
        return {"as_of": self.as_of if math.isfinite(self.as_of) else None, "sums": self._sums.tolist()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "FairnessAccount":
        account = cls()
        if data["as_of"] is not None:
            account.as_of = float(data["as_of"])
            account._sums = np.array(data["sums"], dtype=np.float64).reshape(BUCKETS, len(TenantFlows._fields), -1)
        return account

    def _make_room(self, tenants: int) -> None:
        if (missing := tenants - self._sums.shape[2]) > 0:
            self._sums = np.pad(self._sums, ((0, 0), (0, 0), (0, missing)))
