"""The flagship: promises first, then fairness between tenants, then completion times."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from penstock.core import format_duration
from penstock.policies.base import Assignment
from penstock.policies.columns import Bools, Floats, Ints, Standing
from penstock.policies.deadline import (
    AT_ONCE,
    HOLD_S,
    LARGE,
    AtOnce,
    DeadlinePolicy,
    Growth,
    HeldBack,
    Hold,
    Large,
    Layout,
    PlanInputs,
    Terms,
    Turns,
    hopes,
    protect,
)
from penstock.policies.fair_order import BOUND, LEASE_S, Bound, FairOrder, Lease
from penstock.policies.queue_head import NO_JOB, STARVING_S, Queue, Starving
from penstock.policies.view import View

_AHEAD = "its tenant has had more than its share, and devices are left for jobs of tenants that have had less"


class Unified(DeadlinePolicy):
    """One order of goals, each pursued as far as those before it allow.

    1. *Promised deadlines are kept*, with the plans and the proof of ``deadline``.
    2. *No job starves*: a job that has waited for longer than its patience is due, and devices are reserved for the
       first due job whose tenant has not had its share (:class:`~penstock.policies.queue_head.Queue`). Before a new
       promise is made, that job and all that waited for ``starving_s`` are planned.
    3. *Tenants are treated fairly*: a tenant that used less than ``bound`` of what it deserved in the last day starts
       and grows its jobs before the others until it has caught up. New promises
       to tenants ahead of their share leave room for its jobs without a deadline.
    4. *Completion times*: the job that is done with the fewest device-seconds first, nothing idle, devices where they
       gain most. A running job keeps its devices for a lease, which doubles with every suspension.

    With one tenant and only deadlines it decides as ``deadline`` does. Ours; the measure of fairness is Astraea's.
    O(jobs x breakpoints) per decision, as ``deadline``.
    """

    name: ClassVar[str] = "unified"
    summary: ClassVar[str] = "promises kept, then tenants fair within a bound, then least completion time"
    paper: ClassVar[str] = "ours, from ElasticFlow's shares and Astraea's fairness"

    def __init__(
        self,
        bound: Bound = BOUND,
        lease_s: Lease = LEASE_S,
        starving_s: Starving = STARVING_S,
        at_once: AtOnce = AT_ONCE,
        hold_s: Hold = HOLD_S,
        large: Large = LARGE,
    ) -> None:
        super().__init__(at_once, hold_s, large)
        self.fair_order = FairOrder(bound, lease_s, Queue(starving_s))

    def allocate(self, view: View) -> Assignment:
        decided = super().allocate(view)
        change_at = self.fair_order.next_change(view, decided.widths)
        return replace(decided, wake_at=tuple(min(each, change_at) for each in decided.wake_at))

    def held_back(self, view: View, cost: Floats) -> list[HeldBack]:
        return [HeldBack(self.fair_order.crowds_out(view, cost), _AHEAD), *super().held_back(view, cost)]

    def reserved(self, view: View, terms: Terms) -> tuple[Layout, PlanInputs]:
        queue, layout_inputs = self.fair_order.queue, super().reserved(view, terms)
        waits = queue.starving(view) & (view.standing == Standing.ADMITTED)
        if (head := self.fair_order.head(view, queue.due_since(view))) != NO_JOB:
            waits[head] = True
        return protect(*layout_inputs, np.flatnonzero(waits))

    def turns(self, view: View, promised: Bools, measured: Bools, cost: Floats) -> Turns:
        order = self.fair_order
        due_since = order.queue.due_since(view)
        head = order.head(view, due_since)
        places, later = order.places(view, due_since, head), hopes(view, promised, cost)
        within = reversed(order.within(view, cost))
        rows = np.lexsort((view.sequence, *within, later, -view.priority, places, ~measured))
        return Turns(rows, head, self._growth(view, measured, places))

    def _growth(self, view: View, measured: Bools, places: Ints) -> Growth | None:
        most, share = self.fair_order.growing(view)
        if not most.any():
            return None
        rank = np.argsort(np.argsort(view.tenants.fairness, kind="stable"), kind="stable")
        begin = int(np.count_nonzero(measured | self.fair_order.before_rest(places)))
        return Growth(begin, most, view.tenant, share, rank)

    def explain(self, view: View, row: int) -> str:
        said = f"{super().explain(view, row)}{self._place_in_queue(view, row)}"
        if len(view.tenants.names) == 1:
            return said
        fairness = float(view.tenants.fairness[view.tenant[row]])
        place = "so its jobs go first" if fairness < self.fair_order.bound else "which is no less than the bound"
        return f"{said}; its tenant used {fairness:.2f} of what it deserved in the last day, {place}"

    def _place_in_queue(self, view: View, row: int) -> str:
        """Say when devices are reserved for a waiting job."""
        due_since = self.fair_order.queue.due_since(view)
        if view.width[row] or np.isinf(due_since[row]):
            return ""
        if row == self.fair_order.head(view, due_since):
            return "; it is the head of the queue: the next devices are reserved for it"
        if (left_s := float(due_since[row] - view.now)) > 0:
            return f"; devices are reserved for it in {format_duration(left_s)} if it still waits"
        return "; it is due: devices are reserved for it after the jobs that were due before it"
