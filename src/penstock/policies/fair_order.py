"""In which order jobs come where nothing is promised: leases, the head of the queue, tenants that are behind, cost.

A tenant is *behind* while it used less than ``bound`` of what it deserved in the last day. Its jobs start before those
of other tenants, and its elastic jobs grow before other tenants' jobs start, up to the tenant's fair share of the
devices; what they grew to is kept until the tenant has caught up. A running job is not stopped in the middle of a lease
for that, or for a job that is sooner done; every suspension doubles the leases of a job.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from penstock.policies.columns import Bools, Floats, Ints, Standing
from penstock.policies.fairness import fairness_class, quotient
from penstock.policies.parameters import Parameter
from penstock.policies.queue_head import NO_JOB, Queue
from penstock.policies.view import View

Bound = Annotated[float, Parameter("part of what it deserved below which a tenant comes first", least=0.0)]
Lease = Annotated[float, Parameter("how long a job is not stopped for a job that is promised nothing", least=1.0)]
BOUND = 0.95
LEASE_S = 900.0
RENEWAL_SHARE = 0.05
"""The part of a lease after the first in which a job competes for its devices."""
MOST_DOUBLINGS = 8
"""A lease doubles with every suspension, up to so many times."""
FAR_AHEAD = 1.5
"""A tenant that used this many times what it deserved has no leases while another one is behind."""
ROOM_DEVIATIONS = 2.0
"""Standard deviations above the mean use of tenants that are behind for which new promises to others leave room."""

_KEPT, _HEAD, _DUE, _BEHIND, _REST = range(5)
"""The places of jobs in the order."""


@dataclass(frozen=True, slots=True)
class FairOrder:
    """``bound`` is a tenant's least long-term fairness, ``classes`` are those of jobs that count as equal (0: all)."""

    bound: float
    lease_s: float
    queue: Queue
    classes: int = 0

    def places(self, view: View, due_since: Floats, head: int) -> Ints:
        """Who keeps its devices, the head of the queue, other due jobs, tenants that are behind, and the rest."""
        due, runs = (due_since <= view.now) & ~self.ahead(view), view.width > 0
        keeps = self.leased(view)
        if head != NO_JOB:  # only first leases that began before the head was due hold against it
            keeps &= (view.stint_since <= due_since[head]) & (view.now - view.stint_since < self._leases_s(view))
        places = np.where(self.behind(view)[view.tenant], _BEHIND, _REST)
        places[due] = _DUE
        places[keeps | (due & runs & (view.waited_s > 0.0))] = _KEPT
        if head != NO_JOB:
            places[head] = _HEAD
        return places

    def head(self, view: View, due_since: Floats) -> int:
        """The head of the queue: the first due job of a tenant that is behind, or else of one that is not ahead."""
        behind = self.behind(view)[view.tenant] & (view.width == 0) & (due_since <= view.now)
        return self.queue.head(view, np.where(~behind if behind.any() else self.ahead(view), np.inf, due_since))

    def ahead(self, view: View) -> Bools:
        """Rows whose tenant has had its share, while another one is behind.

        A job wider than that share could never run inside of it: what its tenant holds besides has to be less.
        """
        tenants = view.tenants
        if not self.behind(view)[view.tenant].any():
            return np.zeros(len(view), dtype=bool)
        entitled = tenants.entitled[view.tenant]
        besides = tenants.held[view.tenant] - view.width
        return np.where(view.narrowest > entitled, besides >= entitled, tenants.fairness[view.tenant] > 1.0)

    def before_rest(self, places: Ints) -> Bools:
        """Who comes before the jobs of tenants that are not behind."""
        return np.asarray(places < _REST)

    def within(self, view: View, cost: Floats) -> tuple[Floats | Ints, ...]:
        """What jobs in the same place are sorted by, ascending: their class, if classes count, and device-seconds."""
        if not self.classes:
            return (cost,)
        return (np.where(self.leased(view), 0, self.job_classes(view, cost)), cost)

    def behind(self, view: View) -> Bools:
        """Which tenants used too little of what they deserved."""
        return np.asarray(view.tenants.fairness < self.bound)

    def leased(self, view: View) -> Bools:
        """Who runs and does not compete for its devices now; no job does where a single tenant has jobs.

        A lease holds against jobs of the same and of lower priority; none of a tenant far ahead of its share while
        another one is behind.
        """
        if not self.classes and not self._is_shared(view):
            return np.zeros(len(view), dtype=bool)
        lease_s, ran = self._leases_s(view), view.now - view.stint_since
        competes = (ran >= lease_s) & (np.mod(ran, lease_s) <= self._renewal_s(view))
        highest = view.priority[view.width == 0].max(initial=view.priority.min(initial=0))
        far_ahead = self.ahead(view) & (view.tenants.fairness > FAR_AHEAD)[view.tenant]
        return np.asarray((view.width > 0) & ~competes & (view.priority >= highest) & ~far_ahead)

    def _is_shared(self, view: View) -> bool:
        return len(view) > 0 and bool((view.tenant != view.tenant[0]).any())

    def _leases_s(self, view: View) -> Floats:
        return np.asarray(self.lease_s * 2.0 ** np.minimum(view.suspensions, MOST_DOUBLINGS))

    def _renewal_s(self, view: View) -> float:
        """How long a job competes for its devices at the end of a lease."""
        return max(view.slot, RENEWAL_SHARE * self.lease_s)

    def growing(self, view: View) -> tuple[Ints, Floats]:
        """Over all rows the most devices a row may grow to for fairness, and per tenant the devices it may grow to.

        Tenants that are behind may grow up to their fair share; until they have caught up they keep what they have.
        """
        tenants = view.tenants
        behind, below = tenants.fairness < self.bound, tenants.fairness < 1.0
        most = np.where(behind[view.tenant], view.useful, np.where(below[view.tenant], view.width, 0))
        most[view.standing == Standing.PROMISED] = 0
        if not self._is_shared(view) or not (most > view.narrowest).any():
            return np.zeros(len(view), dtype=np.int64), np.zeros(len(tenants.names))
        return most, tenants.fair_devices(float(view.capacity.sum()))

    def crowds_out(self, view: View, cost: Floats) -> Bools:
        """Rows of tenants ahead of their share whose promises would need devices that tenants that are behind deserve.

        Room is left for the jobs without a deadline of the latter: what these deserved on average in the last day and
        :data:`ROOM_DEVIATIONS` standard deviations more, as large as these can be between nothing and the share.
        """
        tenants = view.tenants
        crowding, behind = np.zeros(len(view), dtype=bool), self.behind(view)
        share = tenants.entitled[behind]
        mean = share * tenants.best_effort_lately[behind] / np.maximum(tenants.entitled_lately[behind], 1.0)
        room = mean.sum() + ROOM_DEVIATIONS * np.sqrt((mean * np.maximum(share - mean, 0.0)).sum())
        if not room > 0.0:
            return crowding
        ahead = (tenants.fairness > 1.0)[view.tenant]
        asked = np.flatnonzero(ahead & (view.standing < Standing.ADMITTED) & np.isfinite(view.deadline))
        asked = asked[np.argsort(cost[asked], kind="stable")]
        needed = np.maximum(cost[asked] / np.maximum(view.deadline[asked] - view.now, 1.0), view.narrowest[asked])
        promised = view.plan_width[ahead & (view.standing == Standing.PROMISED)].max(axis=1, initial=0).sum()
        crowding[asked] = promised + np.cumsum(needed) > view.capacity.sum() - room
        return crowding

    def job_classes(self, view: View, cost: Floats) -> Ints:
        """Jobs by the long-term fairness that they would end with if they ran from now on, the worst first."""
        tenants = view.tenants
        part = tenants.entitled / np.maximum(np.bincount(view.tenant, minlength=len(tenants.names)), 1)
        narrowest = view.narrowest
        left_s = cost / narrowest
        deserved = view.deserved + np.minimum(part[view.tenant], narrowest) * left_s
        return fairness_class(quotient(view.attained + cost, deserved), self.classes)

    def next_change(self, view: View, widths: Ints) -> float:
        """When the order may be another although nothing happened, if a job waits."""
        waiting = widths == 0
        if not waiting.any() or view.overhead.every_round_s > 0:
            return np.inf
        due_since = self.queue.due_since(view)
        changes = [float(due_since.min(initial=np.inf, where=waiting & (due_since > view.now)))]
        if self._is_shared(view) or self.classes:
            runs = ~waiting & (view.width > 0)
            ran, lease_s = view.now - view.stint_since[runs], self._leases_s(view)[runs]
            ends = view.now + lease_s - np.mod(ran, lease_s) + self._renewal_s(view) / 2
            changes.append(float(ends.min(initial=np.inf)))
        return min(changes)
