"""The clock of a search, its best plan so far, and how it got there."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.core import ParallelPlan
from penstock.parallel.search.problem import FoundPlan, Problem

Clock = Callable[[], float]


@dataclass
class SearchRecord:
    """What a search has reached; :meth:`offer` is the only way in, and asks the cost model.

    ``curve`` holds every improvement, the last of them the best. ``bound_s``: seconds per iteration no plan can beat,
    as far as is known. ``repaired``: plans must also fit by the model without its quirks. ``clock`` counts the budget:
    wall time, or :func:`time.process_time` on a busy machine.
    """

    problem: Problem
    budget_s: float
    on_better: Callable[[FoundPlan], None] | None = None
    clock: Clock = time.perf_counter
    repaired: bool = False
    curve: list[FoundPlan] = field(default_factory=list)
    bound_s: float = 0.0
    finished_s: float | None = None
    _started: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.clock()

    @property
    def best(self) -> FoundPlan | None:
        return self.curve[-1] if self.curve else None

    @property
    def gap(self) -> float:
        """How much slower than the bound the best plan is; 0.02 is 2 %."""
        if self.best is None or self.bound_s <= 0:
            return float("inf")
        return self.best.iteration_s / self.bound_s - 1

    @property
    def elapsed_s(self) -> float:
        return self.clock() - self._started if self.finished_s is None else self.finished_s

    def enough(self) -> bool:
        return self.elapsed_s >= self.budget_s

    def stage_bound_us(self, micro_batch: int) -> float:
        """No stage of a plan better than the best takes longer."""
        if self.best is None:
            return 1e12
        return self.best.iteration_s * 1e6 / (self.problem.global_batch // micro_batch)

    def offer(self, plan: ParallelPlan) -> None:
        """Keep ``plan`` if it fits and is faster than all before."""
        cost = self.problem.evaluate(plan)
        if not cost.fits(self.problem.mesh) or (self.best and cost.iteration_s >= self.best.iteration_s):
            return
        if self.repaired and not self.problem.evaluate_repaired(plan).fits(self.problem.mesh):
            return
        found = FoundPlan(plan, cost, self.elapsed_s)
        self.curve.append(found)
        if self.on_better:
            self.on_better(found)

    def finish(self) -> None:
        self.finished_s = self.elapsed_s
