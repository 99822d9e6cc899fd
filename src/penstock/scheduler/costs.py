"""How long a decision stops the jobs it touches, as a table of seconds per row.

The scheduler asks its cost model once per round. Simulations plug in the models of published systems; the live system
uses what it measured.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from penstock.core import FREE, Overhead
from penstock.policies import Bools, Floats, Ints


class CostedRound(NamedTuple):
    """One decision as the cost model sees it: the new widths, which rows changed devices, and which devices."""

    widths: Ints
    changed: Bools
    capacity: int
    devices_of: Callable[[int], tuple[int, ...]]


class CostModel(Protocol):
    """``overhead`` is what policies may expect; ``pauses`` is what each row is charged this round, in seconds."""

    overhead: Overhead

    def pauses(self, decision: CostedRound) -> Floats: ...


class ExpectedCosts:
    """Charges exactly what policies are told to expect."""

    def __init__(self, overhead: Overhead = FREE) -> None:
        self.overhead = overhead

    def pauses(self, decision: CostedRound) -> Floats:
        if self.overhead == FREE:
            return np.zeros(len(decision.widths))
        running = decision.widths > 0
        doublings = np.log2(np.maximum(decision.widths, 1))
        change = self.overhead.change_s + self.overhead.per_doubling_s * doublings
        return np.where(running & decision.changed, change, np.where(running, self.overhead.every_round_s, 0.0))
