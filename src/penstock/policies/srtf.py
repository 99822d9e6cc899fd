"""Shortest remaining time first."""

from typing import ClassVar

from penstock.policies.base import Allocation, KindPolicy
from penstock.policies.greedy import serve_in_order
from penstock.policies.kind_view import KindView


class Srtf(KindPolicy):
    """The job that would be done first runs first, on the devices it asked for; others are preempted for it.

    Optimal for mean completion time on one machine with known durations, hence the usual yardstick; long jobs starve.
    O(jobs log jobs) per decision.
    """

    name: ClassVar[str] = "srtf"
    summary: ClassVar[str] = "shortest remaining time first, preemptive, durations known"
    paper: ClassVar[str] = "Schrage, Operations Research 1968"
    placement: ClassVar[str] = "best-fit"

    def allocate(self, view: KindView) -> Allocation:
        return Allocation(serve_in_order(view, lambda: view.order_by_priority(view.rigid_seconds)))
