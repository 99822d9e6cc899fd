"""Lucid-like: least estimated device-time first, never interrupted, by rules that can be read."""

from typing import Annotated, ClassVar

import numpy as np

from penstock.core import format_duration
from penstock.policies.base import Allocation, KindPolicy
from penstock.policies.columns import Floats, Ints
from penstock.policies.greedy import start_in_order
from penstock.policies.kind_view import KindView
from penstock.policies.parameters import Parameter

SCORES = ("tiny", "medium", "jumbo")
"""How much of its devices a job uses; a tiny one would leave room for another on the same devices."""


class Lucid(KindPolicy):
    """Jobs start in order of estimated device-time on the devices they asked for and are never interrupted.

    Estimates are trusted to a factor of two: jobs whose device-time lies between the same powers of two count as equal,
    and among those the ones with the lower sharing score go first, then the first come. ``why`` tells all three.

    After Hu et al. (ASPLOS'23), reconstructed. Left out: packing two jobs on one device (the platform grants whole
    devices, so the sharing score only orders), the profiler's own nodes, and the estimator trained on users' history
    (the job's own curve says how long it takes). The paper scores jobs by the utilisation it measures; here by what
    the curve tells: how much of the speed of its devices, each for itself, a job has on all of them together.
    O(jobs log jobs) per decision.
    """

    name: ClassVar[str] = "lucid"
    summary: ClassVar[str] = "least estimated device-time first, never interrupted, by rules that can be read"
    paper: ClassVar[str] = "Hu et al., ASPLOS'23 (Lucid-like)"
    placement: ClassVar[str] = "best-fit"

    def __init__(
        self,
        tiny: Annotated[float, Parameter("a job is tiny below this efficiency on its devices", least=0, most=1)] = 0.5,
        jumbo: Annotated[float, Parameter("and jumbo from this efficiency on", least=0, most=1)] = 0.85,
    ) -> None:
        self.limits = (tiny, max(tiny, jumbo))

    def allocate(self, view: KindView) -> Allocation:
        order = view.order_by_priority(device_time_class(view), self.sharing_scores(view))
        return Allocation(start_in_order(view, order))

    def sharing_scores(self, view: KindView) -> Ints:
        """0 tiny, 1 medium, 2 jumbo."""
        return np.searchsorted(self.limits, efficiency(view), side="right")

    def explain(self, view: KindView, row: int) -> str:
        if view.width[row]:
            return f"holds {view.width[row]} devices until it ends; nobody is interrupted"
        order = view.order_by_priority(device_time_class(view), self.sharing_scores(view))
        waiting = order[view.width[order] == 0]
        ahead = int(np.flatnonzero(waiting == row)[0])
        seconds = format_duration(float(view.rigid_seconds[row]))
        score = SCORES[int(self.sharing_scores(view)[row])]
        return (
            f"waits with {ahead} ahead of it: {view.requested[row]} devices for about {seconds}, sharing score {score}"
        )


def device_time_class(view: KindView) -> Ints:
    """The power of two of the device-seconds that each job will take on the devices it asked for."""
    device_time: Floats = np.maximum(view.rigid_seconds * view.requested, 1.0)
    return np.floor(np.log2(device_time)).astype(np.int64)


def efficiency(view: KindView) -> Floats:
    """Speed on the devices asked for, over what as many would do at the best speed per device of the curve."""
    best = (view.rates / view.levels).max(axis=1)
    return np.asarray(view.requested_rate / (view.requested * best))
