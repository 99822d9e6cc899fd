"""The flagship: promises first, then fairness between tenants, then completion times."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from penstock.policies.base import Assignment
from penstock.policies.columns import Bools, Floats, Ints, Standing
from penstock.policies.deadline import (
    AT_ONCE,
    HOLD_S,
    LARGE,
    AtOnce,
    DeadlinePolicy,
    Hold,
    Large,
    Layout,
    PlanInputs,
    Terms,
    hopes,
    protect,
)
from penstock.policies.fair_order import BOUND, LEASE_S, STARVING_S, Bound, FairOrder, Lease, Starving
from penstock.policies.view import View


class Unified(DeadlinePolicy):
    """One order of goals, each pursued as far as those before it allow.

    1. *Promised deadlines are kept*, with the plans and the proof of ``deadline``.
    2. *Nobody starves*: who was let in and waited for ``starving_s`` is planned before any new promise is made, and
       comes before everybody who was promised nothing.
    3. *Tenants are treated fairly*: one that used less than ``bound`` of what it deserved in the last day comes before
       the others until it has caught up, and while it has jobs that wait nobody ahead of its own share is promised
       anything new.
    4. *Completion times*: the job that is done with the fewest device-seconds first, nothing idle, devices where they
       gain most.

    With one tenant it decides as ``deadline`` does, and without deadlines the shortest device-time goes first. Ours;
    the measure of fairness is Astraea's. O(jobs x breakpoints) per decision, as ``deadline``.
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
        self.fair_order = FairOrder(bound, lease_s, starving_s)

    def allocate(self, view: View) -> Assignment:
        decided = super().allocate(view)
        change_at = self.fair_order.next_change(view, decided.widths)
        return replace(decided, wake_at=tuple(min(each, change_at) for each in decided.wake_at))

    def costly(self, view: View, cost: Floats) -> Bools:
        return super().costly(view, cost) | self._ahead(view)

    def reserved(self, view: View, terms: Terms) -> tuple[Layout, PlanInputs]:
        starving = self.fair_order.starving(view) & (view.standing == Standing.ADMITTED)
        return protect(*super().reserved(view, terms), np.flatnonzero(starving))

    def turns(self, view: View, promised: Bools, measured: Bools, cost: Floats) -> Ints:
        starving, waits, *rest = self.fair_order.keys(view, cost)
        later = hopes(view, promised, cost)
        return np.lexsort((view.sequence, *reversed(rest), later, -view.priority, waits, starving, ~measured))

    def _ahead(self, view: View) -> Bools:
        """Whose tenant has had its share while a job of one that is behind waits."""
        behind = self.fair_order.behind(view)
        if not behind.any() or not (behind[view.tenant] & (view.width == 0)).any():
            return np.zeros(len(view), dtype=bool)
        return np.asarray(view.tenants.fairness > 1.0)[view.tenant]

    def explain(self, view: View, row: int) -> str:
        fairness = float(view.tenants.fairness[view.tenant[row]])
        said = super().explain(view, row)
        if len(view.tenants.names) == 1:
            return said
        place = "so its jobs go first" if fairness < self.fair_order.bound else "which is no less than the bound"
        return f"{said}; its tenant used {fairness:.2f} of what it deserved in the last day, {place}"
