"""In which order tenants and their jobs come where nothing is promised: who is behind first, then who is soon done.

A tenant is *behind* while it used less than ``bound`` of what it deserved in the last day: its jobs go first until it
has caught up. Who runs is not stopped for that in the middle of a lease, so that tenants around the bound do not take
devices from each other to and fro. Jobs that waited for very long go before everybody.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from penstock.policies.columns import Bools, Floats, Ints, Standing
from penstock.policies.fairness import fairness_class, quotient
from penstock.policies.parameters import Parameter
from penstock.policies.view import View

Bound = Annotated[float, Parameter("part of what it deserved below which a tenant comes first", least=0.0)]
Lease = Annotated[float, Parameter("how long a job is not stopped for fairness", least=1.0)]
Starving = Annotated[float, Parameter("a job that waited so long goes first", least=1.0)]
BOUND = 0.95
LEASE_S = 900.0
STARVING_S = 6 * 3600.0
RENEWAL_SHARE = 0.05
"""The part of a lease after the first in which a job competes for its devices."""


@dataclass(frozen=True, slots=True)
class FairOrder:
    """``bound`` is a tenant's least long-term fairness, ``classes`` are those of jobs that count as equal (0: all)."""

    bound: float
    lease_s: float
    starving_s: float
    classes: int = 0

    def keys(self, view: View, cost: Floats) -> tuple[Floats | Ints | Bools, ...]:
        """What jobs are sorted by, ascending: starving ones, tenants that are behind, the class, device-seconds."""
        leased, behind = self.leased(view), self.behind(view)[view.tenant]
        waits = ~(behind | leased) if behind.any() else behind
        if not self.classes:
            return ~self.starving(view), waits, cost
        return ~self.starving(view), waits, np.where(leased, 0, self.job_classes(view, cost)), cost

    def behind(self, view: View) -> Bools:
        """Which tenants used too little of what they deserved."""
        return np.asarray(view.tenants.fairness < self.bound)

    def leased(self, view: View) -> Bools:
        """Who runs, and does not compete for its devices now."""
        ran = view.now - view.stint_since
        competes = (ran >= self.lease_s) & (np.mod(ran, self.lease_s) <= self._renewal_s(view))
        return np.asarray((view.width > 0) & ~competes)

    def _renewal_s(self, view: View) -> float:
        """How long a job competes for its devices at the end of a lease."""
        return max(view.slot, RENEWAL_SHARE * self.lease_s)

    def starving(self, view: View) -> Bools:
        """Who was let in and has been without devices for too long."""
        waited = (view.width == 0) & (view.now - view.stint_since >= self.starving_s)
        return np.asarray(waited & (view.standing >= Standing.ADMITTED))

    def job_classes(self, view: View, cost: Floats) -> Ints:
        """Jobs by the long-term fairness that they would end with if they ran from now on, the worst first."""
        tenants = view.tenants
        part = tenants.entitled / np.maximum(np.bincount(view.tenant, minlength=len(tenants.names)), 1)
        narrowest = view.narrowest
        left_s = cost / narrowest
        deserved = view.deserved + np.minimum(part[view.tenant], narrowest) * left_s
        return fairness_class(quotient(view.attained + cost, deserved), self.classes)

    def next_change(self, view: View, widths: Ints) -> float:
        """When the order may be another although nothing happened, if somebody waits."""
        waiting = widths == 0
        if not waiting.any() or view.overhead.every_round_s > 0:
            return np.inf
        starves = view.stint_since[waiting] + self.starving_s
        changes = [float(starves.min(initial=np.inf, where=starves > view.now))]
        if len(np.unique(view.tenant)) > 1 or self.classes:
            ran = view.now - view.stint_since[~waiting & (view.width > 0)]
            ends = view.now + self.lease_s - np.mod(ran, self.lease_s) + self._renewal_s(view) / 2
            changes.append(float(ends.min(initial=np.inf)))
        return min(changes)
