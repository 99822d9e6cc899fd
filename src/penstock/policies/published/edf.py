"""Earliest deadline first, plain and with admission."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from penstock.core import Quote
from penstock.policies.admission import admit_singly
from penstock.policies.base import Allocation, KindPolicy
from penstock.policies.columns import Ints
from penstock.policies.filling import usable
from penstock.policies.kind_view import KindView
from penstock.policies.planned_policy import PlannedPolicy
from penstock.policies.planning import PlanTerms, best_layout, promised_rows
from penstock.tools import compiled


class Edf(KindPolicy):
    """In order of deadline, each job as wide as it can go on what is left.

    Optimal when speed is proportional to devices; with real curves the first jobs waste devices on the flat end of
    theirs, which is why it is the classical straw man of elastic scheduling. O(jobs log jobs) per decision.
    """

    name: ClassVar[str] = "edf"
    summary: ClassVar[str] = "earliest deadline first, each job as wide as it can go"
    paper: ClassVar[str] = "Liu and Layland, JACM 1973"

    def allocate(self, view: KindView) -> Allocation:
        order = view.order_by_priority(view.deadline, view.submitted)
        return Allocation(_widest_in_order(order, view.levels, view.depth, view.capacity))


class EdfAdmission(PlannedPolicy):
    """EDF that takes a job only if the plan for everybody then still meets every deadline.

    What the promised jobs leave goes to the others, again in order of deadline. O(jobs x breakpoints) per candidate.
    """

    name: ClassVar[str] = "edf-admission"
    summary: ClassVar[str] = "EDF that refuses what it could not finish in time"
    paper: ClassVar[str] = "Gu et al., ASPLOS'23 (a baseline there)"
    keeps_promises: ClassVar[bool] = True

    def admit(self, view: KindView, rows: Ints) -> Sequence[Quote]:
        terms = PlanTerms.stated(view, widest=True)
        return admit_singly(view, rows, best_layout(view, promised_rows(view), terms), terms)

    def allocate(self, view: KindView) -> Allocation:
        layout = best_layout(view, promised_rows(view), PlanTerms.stated(view, widest=True))
        widths = layout.widths_at(view.now)
        others = view.order_by_priority(view.deadline, view.submitted)
        others = others[widths[others] == 0]
        widths += _widest_in_order(others, view.levels, view.depth, view.capacity - int(widths.sum()))
        return Allocation(widths, layout.plans.next_change(view.now), layout.plans, layout.missed)


@compiled
def _widest_in_order(order: Ints, levels: Ints, depth: Ints, capacity: int) -> Ints:
    widths = np.zeros(len(depth), dtype=np.int64)
    for job in order:
        index = usable(levels[job], depth[job], capacity)
        if index >= 0:
            widths[job] = levels[job][index]
            capacity -= widths[job]
    return widths
