"""Whom jobs are accounted to: shares, quotas, groups, and the device-seconds that each has held.

Device-seconds of jobs that are there are a column of the job table; what jobs that are over have held is added up here
when they leave, so that a tenant's total is exact at every event and costs nothing in between. Everything that follows
from the settings alone is derived when they change, not when somebody looks.
"""

from functools import cached_property

import numpy as np

from penstock.core import EventError, Tenant
from penstock.policies import Floats, Ints, TenantBounds, TenantTable
from penstock.scheduler.fairness import FairnessAccount


class Tenants:
    """All tenants that ever had a job or a setting, in the order in which they appeared."""

    def __init__(self) -> None:
        self.known: list[Tenant] = []
        self.past: list[float] = []
        """Device-seconds held by jobs that are not in the table any more."""
        self.removed: set[str] = set()
        """Those that count for nothing until they are heard of again."""
        self._position: dict[str, int] = {}
        self.account = FairnessAccount()
        self._entitled: tuple[int, Floats] = (-1, np.zeros(0))
        self._bounds: tuple[int, TenantBounds] | None = None
        """What was worked out last, and for how many devices."""

    def position(self, name: str) -> int:
        """Where a tenant is in the table; one that nobody has heard of has a share of 1 and no quota."""
        if name not in self._position or name in self.removed:
            self.set(Tenant(name=name))
        return self._position[name]

    def find(self, name: str) -> Tenant | None:
        """The settings of a tenant that is there."""
        return self.known[self._position[name]] if name in self._position and name not in self.removed else None

    def set(self, tenant: Tenant) -> None:
        """A tenant appears, or has other settings from now on; its group appears if nobody has heard of it."""
        self._check_group(tenant)
        self.restore(tenant)
        if tenant.group and self.find(tenant.group) is None:
            self.restore(Tenant(name=tenant.group))

    def restore(self, tenant: Tenant, past: float = 0.0, *, removed: bool = False) -> None:
        """A tenant as it was."""
        self._settings_changed()
        (self.removed.add if removed else self.removed.discard)(tenant.name)
        if tenant.name in self._position:
            self.known[self._position[tenant.name]] = tenant
            return
        self._position[tenant.name] = len(self.known)
        self.known.append(tenant)
        self.past.append(past)
        self.account.add_tenant()

    def remove(self, name: str) -> None:
        """A tenant, or a group without members, counts for nothing any more."""
        if self.find(name) is None:
            raise EventError(f"no tenant {name!r} is known here")
        if members := self.members(name):
            raise EventError(f"{name!r} is the group of {', '.join(members)}; they have to leave it first")
        self.restore(Tenant(name=name), removed=True)

    def members(self, name: str) -> list[str]:
        """The tenants whose group this is."""
        return [each.name for each in self.known if each.group == name and each.name not in self.removed]

    def is_group(self, name: str) -> bool:
        position = self._position.get(name)
        return position is not None and position in self._groups

    def priority(self, position: int, priority: int) -> int:
        """What the priority of a job counts for, given whose it is."""
        return self.known[position].class_priority(priority)

    def entitled(self, capacity: int) -> Floats:
        """The devices that each tenant's share of so many comes to; no more than it may hold. Groups have none."""
        if self._entitled[0] != capacity:
            self._entitled = capacity, np.minimum(capacity * self._fractions, self._ceilings)
        return self._entitled[1]

    def bounds(self, capacity: int) -> TenantBounds | None:
        """What a decision about so many devices has to respect; nothing if nobody has a quota or a limit."""
        if not self._is_bounded:
            return None
        if self._bounds is None or self._bounds[0] != capacity:
            self._bounds = capacity, self._bounds_of(capacity)
        return self._bounds[1]

    def table(self, tenant: Ints, attained: Floats, now: float, capacity: int) -> TenantTable:
        """From the columns of the jobs that are there, and from what is counted of the last day."""
        entitled = self.entitled(capacity)
        window = self.account.window(now, entitled)
        return TenantTable(
            names=tuple(each.name for each in self.known),
            groups=self._parents,
            shares=self._shares,
            quotas=np.array([float(each.guaranteed) for each in self.known]),
            limits=self._ceilings,
            held=self.account.held.astype(np.int64),
            wanted=self.account.useful.astype(np.int64),
            attained=np.array(self.past) + np.bincount(tenant, weights=attained, minlength=len(self.known)),
            entitled=entitled,
            used_lately=window.used,
            deserved_lately=window.deserved,
            entitled_lately=window.entitled,
            best_effort_lately=window.best_effort,
        )

    def copy(self) -> "Tenants":
        other = Tenants()
        other.known, other.past, other._position = self.known.copy(), self.past.copy(), self._position.copy()
        other.account, other.removed = self.account.copy(), self.removed.copy()
        return other

    def _settings_changed(self) -> None:
        self._bounds, self._entitled = None, (-1, np.zeros(0))
        for derived in ("_shares", "_ceilings", "_parents", "_groups", "_fractions", "_is_bounded"):
            self.__dict__.pop(derived, None)

    def _check_group(self, tenant: Tenant) -> None:
        around: list[str] = [tenant.name]
        group = tenant.group
        while group:
            if group in around:
                raise EventError(f"{tenant.name!r} cannot be in the group {tenant.group!r}, which is inside it")
            around.append(group)
            found = self.find(group)
            group = found.group if found is not None else ""

    @cached_property
    def _shares(self) -> Floats:
        return np.array([each.share for each in self.known])

    @cached_property
    def _ceilings(self) -> Floats:
        return np.array([each.ceiling for each in self.known])

    @cached_property
    def _parents(self) -> Ints:
        return np.array([self._position[each.group] if each.group else -1 for each in self.known], dtype=np.int64)

    @cached_property
    def _groups(self) -> frozenset[int]:
        """Positions that somebody belongs to."""
        present = [each for each in self.known if each.name not in self.removed]
        return frozenset(self._position[each.group] for each in present if each.group)

    @cached_property
    def _is_bounded(self) -> bool:
        return any(each.quota is not None or each.limit is not None for each in self.known)

    @cached_property
    def _fractions(self) -> Floats:
        """The part of the cluster that each tenant's share comes to: its part of its group's."""
        parts = np.zeros(len(self.known))
        self._divide(-1, 1.0, parts)
        return parts

    def _divide(self, group: int, part: float, parts: Floats) -> None:
        inside = [at for at in np.flatnonzero(self._parents == group).tolist() if not self._is_removed(at)]
        whole = float(self._shares[inside].sum())
        for position in inside:
            mine = part * float(self._shares[position]) / whole
            if position in self._groups:
                self._divide(position, mine, parts)
            else:
                parts[position] = mine

    def _is_removed(self, position: int) -> bool:
        return self.known[position].name in self.removed

    def _bounds_of(self, capacity: int) -> TenantBounds:
        """Quotas that come to more than there is (a node was lost) are cut in proportion."""
        quotas = np.array([each.guaranteed for each in self.known], dtype=np.int64)
        unlent = np.array([0 if each.lending else each.guaranteed for each in self.known], dtype=np.int64)
        plain = TenantBounds(self._parents, quotas, self._ceilings, unlent)
        for position in sorted(range(len(quotas)), key=lambda at: -len(plain.lineages[at])):
            inside = int(quotas[self._parents == position].sum())
            quotas[position] = max(quotas[position], inside)
        whole = int(quotas[self._parents < 0].sum())
        if whole > capacity:
            quotas, unlent = (column * capacity // whole for column in (quotas, unlent))
        return TenantBounds(self._parents, quotas, self._ceilings, np.minimum(unlent, quotas))
