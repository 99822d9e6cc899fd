"""ElasticFlow as in the paper."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from penstock.core import Quote
from penstock.policies.admission import admit_singly
from penstock.policies.base import Allocation
from penstock.policies.columns import Floats, Ints
from penstock.policies.filling import usable
from penstock.policies.greedy import by_priority
from penstock.policies.kind_view import KindView
from penstock.policies.planned_policy import PlannedPolicy
from penstock.policies.planning import PlanLayout, PlanTerms, best_layout, promised_rows
from penstock.tools import compiled


class ElasticFlow(PlannedPolicy):
    """Each promised job holds the least devices that still meet its deadline; what is idle goes where it helps most.

    *Admission* (Algorithm 1): lay out the minimum satisfactory share of everybody in deadline order by progressive
    filling; the new job is in if all deadlines hold. *Allocation* (Algorithm 2): start from those shares and give idle
    devices, one doubling at a time, to the job that saves most device-time later per device given now. *Placement*:
    buddy blocks. (Gu et al., ASPLOS'23.) Filling is O(jobs x levels x breakpoints), giving is O(devices x jobs).
    """

    name: ClassVar[str] = "elasticflow"
    summary: ClassVar[str] = "least devices that meet each deadline, idle ones where they save most device-time"
    paper: ClassVar[str] = "Gu et al., ASPLOS'23"
    keeps_promises: ClassVar[bool] = True

    def admit(self, view: KindView, rows: Ints) -> Sequence[Quote]:
        return admit_singly(view, rows, minimum_shares(view), PlanTerms.stated(view))

    def allocate(self, view: KindView) -> Allocation:
        layout = minimum_shares(view)
        widths = layout.widths_at(view.now)
        share = layout.plans.width.max(axis=1, initial=0)
        slot = max(view.slot, 1.0)
        for rows in by_priority(view, np.arange(len(view))):
            give_idle(widths, rows, share, view.remaining, view.levels, view.rates, view.depth, view.capacity, slot)
        return Allocation(widths, layout.plans.next_change(view.now), layout.plans, layout.missed)


def minimum_shares(view: KindView) -> PlanLayout:
    """Algorithm 1 for the jobs already in: everybody's minimum satisfactory share, in order of deadline."""
    return best_layout(view, promised_rows(view), PlanTerms.stated(view))


@compiled
def device_time(level: int, share: int, remaining: float, levels: Ints, rates: Floats, slot: float) -> float:
    """Device-seconds to finish when the next slot runs at ``level`` and the rest at ``share``."""
    if rates[level] * slot >= remaining:
        return float(levels[level] * remaining / rates[level])
    rest = remaining - rates[level] * slot
    return float(levels[level] * slot + levels[share] * rest / rates[share])


@compiled
def give_idle(
    widths: Ints, rows: Ints, share: Ints, remaining: Floats, levels: Ints, rates: Floats, depth: Ints, capacity: int,
    slot: float,
) -> None:  # fmt: skip
    """Algorithm 2: double the job, of those in ``rows``, with the best marginal return until nothing fits."""
    idle = capacity - widths.sum()
    while idle > 0:
        best, best_gain, best_width = -1, -np.inf, 0
        for job in rows:
            current = usable(levels[job], depth[job], widths[job]) if widths[job] else -1
            following = current + 1
            if following >= depth[job] or levels[job][following] - widths[job] > idle:
                continue
            gain = np.inf
            if current >= 0:
                base = max(usable(levels[job], depth[job], share[job]), 0)
                saved = device_time(
                    current, base, remaining[job], levels[job], rates[job], slot
                ) - device_time(following, base, remaining[job], levels[job], rates[job], slot)  # fmt: skip
                gain = saved / (levels[job][following] - widths[job])
            if gain > best_gain:
                best, best_gain, best_width = job, gain, levels[job][following]
        if best < 0:
            return
        idle -= best_width - widths[best]
        widths[best] = best_width
