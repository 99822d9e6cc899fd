"""Quotas and limits of tenants, whatever the policy: who lends gets back what it asks for, nobody exceeds a limit.

The policy decides as if there were neither. Where its answer leaves a tenant with less than its quota although its jobs
could use more, the tenant's jobs are decided about first, by the same policy, on the devices of the quota; where it
gives a tenant more than it may hold, that tenant's jobs are decided about alone, on what it may hold. Everybody else
shares what is left, so whoever borrowed gives back, in the order of the policy. A group counts like a tenant whose jobs
are those of all its members: what one of them leaves is its siblings' before it is anybody else's.

Promises come before quotas and limits. Jobs that were promised something are decided about with everybody else, and a
promise is made only on devices that are not another tenant's quota, so that it need not be broken for one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from penstock.core import Quote
from penstock.policies.base import Admission, Assignment, Plans, Policy
from penstock.policies.columns import Bools, Floats, Ints, Standing
from penstock.policies.guards.promisable import admit_within_bounds, without_devices
from penstock.policies.guards.tenant_bounds import TenantBounds
from penstock.policies.view import View

_ROUNDS = 12
"""After so many corrections, in each of which at least one tenant gets its due, limits are kept by force."""


class WithinBounds(Policy):
    """A policy whose answers respect what tenants are guaranteed and may hold at most.

    It costs nothing where nobody has a quota or a limit, one look at the totals where the policy respects them, and
    otherwise one more decision about the jobs of each tenant that has to be corrected, and about the rest.
    """

    name: ClassVar[str] = "within-bounds"
    summary: ClassVar[str] = "quotas and limits of tenants, whatever the policy"

    def __init__(self, policy: Policy, admission: Admission[View] | None = None) -> None:
        self.policy = policy
        self._admission = admission or policy

    def allocate(self, view: View) -> Assignment:
        if view.bounds is None:
            return self.policy.allocate(view)
        divided = _Division(self.policy, view, view.bounds).decided()
        if len(divided.late):
            plain = self.policy.allocate(view)
            divided = divided if divided.keeps_promises_of(plain) else plain
        return _capped(view, view.bounds, divided)

    def admit(self, view: View, rows: Ints) -> Sequence[Quote | None]:
        if view.bounds is None:
            return self._admission.admit(view, rows)
        return admit_within_bounds(self._admission, view, view.bounds, rows)

    def explain(self, view: View, row: int) -> str:
        return self.policy.explain(view, row)


@dataclass(slots=True)
class _Pool:
    """Rows that are decided about together on so many devices of each kind.

    ``outside`` is what other rows of each position hold. Positions that are ``claimed`` have got what they can of their
    quota, those that are ``capped`` have been decided about alone.
    """

    rows: Ints
    free: Ints
    outside: Floats
    claimed: set[int] = field(default_factory=set)
    capped: set[int] = field(default_factory=set)

    def settle(self, rows: Ints, used: Ints, totals: Floats) -> None:
        """These rows are decided about, and leave with the devices they use."""
        self.rows, self.free, self.outside = np.setdiff1d(self.rows, rows), self.free - used, self.outside + totals


class _Division:
    """One decision of a policy within bounds; its columns have what is settled so far."""

    def __init__(self, policy: Policy, view: View, bounds: TenantBounds) -> None:
        self._policy = policy
        self._view = view
        self._bounds = bounds
        self._promised = view.standing == Standing.PROMISED
        self._useful = view.useful
        self._kinds, self._widths = view.bound.copy(), np.zeros(len(view), dtype=np.int64)
        self._plans: Plans | None = None
        self._pinned = np.zeros(len(view), dtype=bool)
        self._wake_at = np.full(len(view.conditions), math.inf)
        self._missed = np.zeros(len(view), dtype=bool)

    def decided(self) -> Assignment:
        view, bounds = self._view, self._bounds
        outside = np.asarray(bounds.within @ view.held_elsewhere)
        wanted = bounds.totals(view.tenant, self._useful) + outside
        idle = int(np.maximum(bounds.unlent - wanted, 0).sum())
        self._divide(_Pool(np.arange(len(view)), without_devices(view.capacity, idle), outside), bounds.bounded)
        wake_at = tuple(self._wake_at.tolist())
        return Assignment(self._kinds, self._widths, wake_at, self._plans, self._pinned, self._missed)

    def _divide(self, pool: _Pool, positions: Sequence[int]) -> None:
        """Decide about the rows of a pool, with what is due to these positions.

        Quotas come first: who held too much may hold less when they have been given.
        """
        answer = self._ask(pool)
        for _ in range(_ROUNDS):
            over, short = self._wronged(pool, answer.widths, positions)
            if not over and not short:
                break
            self._write(pool.rows, answer)
            there = len(pool.rows)
            for position in short:
                pool.claimed.add(position)
                self._settle(pool, position, positions, self._bounds.guaranteed[position], everybody=False)
            for position in over if len(pool.rows) == there else ():
                pool.capped.add(position)
                self._settle(pool, position, positions, self._bounds.ceiling[position], everybody=True)
            if len(pool.rows) < there:
                answer = self._ask(pool)
        self._keep(pool.rows, answer)

    def _wronged(self, pool: _Pool, widths: Ints, positions: Sequence[int]) -> tuple[list[int], list[int]]:
        """Who would hold too much, and who too little of its quota; of a group and its members the group alone."""
        bounds, tenant = self._bounds, self._view.tenant[pool.rows]
        holds = pool.outside + bounds.totals(tenant, widths)
        could = pool.outside + bounds.totals(tenant, self._useful[pool.rows])
        over, short = holds > bounds.ceiling, holds < np.minimum(bounds.guaranteed, could)
        found: tuple[list[int], list[int]] = [], []
        for position in positions:
            if not {*found[0], *found[1]}.isdisjoint(bounds.lineages[position]):
                continue
            if over[position] and position not in pool.capped:
                found[0].append(position)
            elif short[position] and position not in pool.claimed:
                found[1].append(position)
        return found

    def _settle(self, pool: _Pool, position: int, positions: Sequence[int], due: float, *, everybody: bool) -> None:
        """Decide about the rows of one position on what is due to it: about all of them, or those it is enough for."""
        bounds, view = self._bounds, self._view
        inside = bounds.within[position][view.tenant[pool.rows]] > 0
        promised = self._promised[pool.rows]
        rows, kept = pool.rows[inside & ~promised], pool.rows[inside & promised]
        if not len(rows):
            return
        outside = pool.outside + bounds.totals(view.tenant[kept], self._widths[kept])
        free = np.maximum(pool.free - self._by_kind(pool.rows[promised]), 0)
        before = int(self._widths[rows].sum())
        room = self._room(rows, max(int(due - outside[position]), 0), free)
        below = [each for each in positions if each != position and position in bounds.lineages[each]]
        self._divide(_Pool(rows, room, outside), below)
        if everybody or int(self._widths[rows].sum()) > before:
            leaving = rows if everybody else rows[self._widths[rows] > 0]
            pool.settle(leaving, self._by_kind(leaving), bounds.totals(view.tenant[leaving], self._widths[leaving]))

    def _by_kind(self, rows: Ints) -> Ints:
        return np.bincount(self._kinds[rows], self._widths[rows], len(self._view.conditions)).astype(np.int64)

    def _room(self, rows: Ints, budget: int, free: Ints) -> Ints:
        """So many devices, of the kinds that these rows are bound to, as far as there are some."""
        if len(free) == 1:
            return np.minimum(free, budget)
        useful = np.bincount(self._view.bound[rows], self._useful[rows], len(free)).astype(np.int64)
        room = np.zeros_like(free)
        for kind in np.argsort(-useful, kind="stable").tolist():
            room[kind] = min(int(free[kind]), int(useful[kind]), budget)
            budget -= int(room[kind])
        return room

    def _ask(self, pool: _Pool) -> Assignment:
        view = self._view
        if not len(pool.rows):
            return Assignment(pool.rows, pool.rows, tuple(math.inf for _ in view.conditions))
        if len(pool.rows) == len(view) and (pool.free == view.capacity).all():
            return self._policy.allocate(view)
        part = view.part(pool.rows, pool.free)
        return fitted(part, self._policy.allocate(part))

    def _write(self, rows: Ints, answer: Assignment) -> None:
        self._kinds[rows], self._widths[rows] = answer.kinds, answer.widths

    def _keep(self, rows: Ints, answer: Assignment) -> None:
        self._write(rows, answer)
        self._wake_at = np.minimum(self._wake_at, answer.wake_at)
        if answer.missed is not None:
            self._missed[rows] = answer.missed
        if answer.pinned is not None:
            self._pinned[rows] = answer.pinned
        if answer.plans is not None:
            plans = self._plans = self._plans or Plans.none(len(self._view))
            plans.at[rows], plans.width[rows] = answer.plans.at, answer.plans.width
            plans.kind[rows] = answer.plans.kind


def quota_shortfall(view: View, widths: Ints) -> float:
    """Devices of quotas that their owners could use and do not get by these widths."""
    if (bounds := view.bounds) is None:
        return 0.0
    outside = np.asarray(bounds.within @ view.held_elsewhere)
    holds, could = (outside + bounds.totals(view.tenant, devices) for devices in (widths, view.useful))
    return float(np.maximum(np.minimum(bounds.guaranteed, could) - holds, 0.0).sum())


def _capped(view: View, bounds: TenantBounds, decided: Assignment) -> Assignment:
    """Within the limits by force, where the rounds were not enough or a promise would have been missed."""
    widths = decided.widths
    for position in bounds.bounded:
        excess = bounds.totals(view.tenant, widths)[position] - bounds.ceiling[position]
        if excess > 0:
            widths = _cut(view, widths, bounds.within[position][view.tenant] > 0, int(excess))
    return decided if widths is decided.widths else replace(decided, widths=widths)


def fitted(view: View, decided: Assignment) -> Assignment:
    """On the devices that there are by force: a policy that stops nobody may count on everybody to stay."""
    widths = decided.widths
    for kind, here in enumerate(view.conditions):
        mine = decided.kinds == kind
        if (excess := int(widths[mine].sum()) - here.capacity) > 0:
            widths = _cut(view, widths, mine, excess)
    return decided if widths is decided.widths else replace(decided, widths=widths)


def _cut(view: View, widths: Ints, among: Bools, excess: int) -> Ints:
    """So many devices fewer, from as few jobs that were promised nothing as it takes: whoever waited gives up first,
    then low priorities and late arrivals."""
    rows = np.flatnonzero(among & (view.standing != Standing.PROMISED) & (widths > 0))
    rows = rows[np.lexsort((-view.sequence[rows], view.priority[rows], view.width[rows] > 0))]
    given_up = rows[np.cumsum(widths[rows]) - widths[rows] < excess]
    spare, cut = int(widths[given_up].sum()) - excess, widths.copy()
    cut[given_up] = 0
    for row in given_up[::-1].tolist():
        if widths[row] <= spare:
            cut[row] = widths[row]
            spare -= int(widths[row])
    return cut
