"""Gandiva: time slicing."""

import math
from typing import Annotated, ClassVar

import numpy as np

from penstock.policies.base import Allocation, KindPolicy
from penstock.policies.columns import Ints
from penstock.policies.greedy import serve_in_order
from penstock.policies.kind_view import KindView
from penstock.policies.parameters import Parameter


class Gandiva(KindPolicy):
    """Round robin over everybody: a job runs for one quantum, then whoever has waited longest gets a turn.

    Suspending at the end of a mini-batch is cheap, so an over-subscribed cluster gives every job early feedback instead
    of making most of them wait (Xiao et al., OSDI'18). Packing two jobs on one device is not modelled here.
    O(jobs log jobs) per decision.
    """

    name: ClassVar[str] = "gandiva"
    summary: ClassVar[str] = "time slicing: everybody gets a turn"
    paper: ClassVar[str] = "Xiao et al., OSDI'18"
    placement: ClassVar[str] = "best-fit"

    def __init__(
        self, quantum_s: Annotated[float, Parameter("how long a turn on the devices lasts", least=1.0)] = 60.0
    ) -> None:
        self.quantum_s = quantum_s

    def allocate(self, view: KindView) -> Allocation:
        widths = serve_in_order(view, lambda: self._turns(view))
        if (widths > 0).all():
            return Allocation(widths)
        in_turn = (view.width > 0) & (view.now - view.stint_since < self.quantum_s)
        turn_began = np.where(in_turn, view.stint_since, view.now)
        return Allocation(widths, float(turn_began.min(initial=math.inf, where=widths > 0)) + self.quantum_s)

    def _turns(self, view: KindView) -> Ints:
        """Whoever is in the middle of a turn, then whoever waits, then whoever has had one; the longest first."""
        in_turn = (view.width > 0) & (view.now - view.stint_since < self.quantum_s)
        group = np.where(in_turn, 0, np.where(view.width == 0, 1, 2))
        return view.order_by_priority(group, view.stint_since)
