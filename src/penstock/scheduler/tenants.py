"""Whom jobs are accounted to: shares, quotas, and the device-seconds that each has held.

Device-seconds of jobs that are there are a column of the job table; what jobs that are over have held is added up here
when they leave, so that a tenant's total is exact at every event and costs nothing in between.
"""

from functools import cached_property

import numpy as np

from penstock.core import Tenant
from penstock.policies import Floats, Ints, TenantTable
from penstock.scheduler.fairness import FairnessAccount


class Tenants:
    """All tenants that ever had a job or a setting, in the order in which they appeared."""

    def __init__(self) -> None:
        self.known: list[Tenant] = []
        self.past: list[float] = []
        """Device-seconds held by jobs that are not in the table any more."""
        self._position: dict[str, int] = {}
        self.account = FairnessAccount()
        self._entitled: tuple[int, Floats] = (-1, np.zeros(0))
        """What was worked out last, and for how many devices."""

    @cached_property
    def _settings(self) -> tuple[Floats, Floats]:
        """Shares and quotas."""
        quotas = [np.inf if each.quota is None else float(each.quota) for each in self.known]
        return np.array([each.share for each in self.known]), np.array(quotas)

    def position(self, name: str) -> int:
        """Where a tenant is in the table; one that nobody has heard of has a share of 1 and no quota."""
        if name not in self._position:
            self.set(Tenant(name=name))
        return self._position[name]

    def set(self, tenant: Tenant, past: float = 0.0) -> None:
        """A tenant appears, or has other settings from now on."""
        self.__dict__.pop("_settings", None)
        self._entitled = (-1, np.zeros(0))
        if tenant.name in self._position:
            self.known[self._position[tenant.name]] = tenant
            return
        self._position[tenant.name] = len(self.known)
        self.known.append(tenant)
        self.past.append(past)
        self.account.add_tenant()

    def entitled(self, capacity: int) -> Floats:
        """The devices that each tenant's share of so many comes to; no more than its quota."""
        if self._entitled[0] != capacity:
            shares, quotas = self._settings
            self._entitled = capacity, np.minimum(capacity * shares / shares.sum(), quotas) if len(shares) else shares
        return self._entitled[1]

    def table(self, tenant: Ints, attained: Floats, now: float, capacity: int) -> TenantTable:
        """From the columns of the jobs that are there, and from what is counted of the last day."""
        entitled = self.entitled(capacity)
        window = self.account.window(now, entitled)
        return TenantTable(
            names=tuple(each.name for each in self.known),
            shares=self._settings[0],
            quotas=self._settings[1],
            held=self.account.held.astype(np.int64),
            attained=np.array(self.past) + np.bincount(tenant, weights=attained, minlength=len(self.known)),
            entitled=entitled,
            used_lately=window.used,
            deserved_lately=window.deserved,
            entitled_lately=window.entitled,
        )

    def copy(self) -> "Tenants":
        other = Tenants()
        other.known, other.past, other._position = self.known.copy(), self.past.copy(), self._position.copy()
        other.account = self.account.copy()
        return other
