"""Shortest remaining time first."""

from typing import Annotated, ClassVar, Literal

from penstock.policies.base import Allocation, KindPolicy
from penstock.policies.columns import Floats
from penstock.policies.greedy import serve_in_order
from penstock.policies.kind_view import KindView
from penstock.policies.parameters import Parameter


class Srtf(KindPolicy):
    """The job that would be done first runs first, on the devices it asked for; others are preempted for it.

    Optimal for mean completion time on one machine with known durations, hence the usual yardstick; long jobs starve.
    A wide gang blocks many narrow ones: in order of ``device-time`` a job counts by its remaining time times its width.
    O(jobs log jobs) per decision.
    """

    name: ClassVar[str] = "srtf"
    summary: ClassVar[str] = "shortest remaining time first, preemptive, durations known"
    paper: ClassVar[str] = "Schrage, Operations Research 1968"
    placement: ClassVar[str] = "best-fit"

    def __init__(
        self,
        order: Annotated[
            Literal["time", "device-time"], Parameter("least remaining time first, or least remaining device-time")
        ] = "time",
    ) -> None:
        self.order = order

    def allocate(self, view: KindView) -> Allocation:
        return Allocation(serve_in_order(view, lambda: view.order_by_priority(self._left(view))))

    def _left(self, view: KindView) -> Floats:
        return view.rigid_seconds if self.order == "time" else view.rigid_seconds * view.requested
