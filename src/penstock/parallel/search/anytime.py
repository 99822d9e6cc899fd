"""Our search: exact cuts first, then near exact stages; a plan early, better ones later, a bound beside them.

1. *Coarse*: for every micro-batch, stage times between a few dozen possible cuts and the best pipelines among them
   (:mod:`stages.table`, :mod:`cuts`). About a second, and usually within a few percent.
2. *Fine*: for promising micro-batches the same between all operators, with the best plan so far as a bound on stage
   times; models of thousands of operators are refined around the coarse cuts. The other micro-batches come last.
3. *Mixed*: stages whose operators are split differently, coarse; and fine if that brought a better plan.
4. *Polish*: the best pipelines are moved by near exact stage times (:mod:`cut_polish`), with every operator's split,
   variant and recomputation chosen by itself (:mod:`stages.solver`).
5. *Bound*: what no plan can beat (:mod:`bound`).

Aceso (EuroSys'24) climbs from a balanced plan by local moves instead; ``bench.aceso`` does so as published.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from penstock.core import ParallelPlan
from penstock.parallel.search.bound import PRICE_LEVELS, loose_bound_s, micro_batch_bound_s, relaxed_bound_s
from penstock.parallel.search.cut_polish import polished
from penstock.parallel.search.cuts import CutStage
from penstock.parallel.search.problem import FoundPlan, Problem
from penstock.parallel.search.record import Clock, SearchRecord
from penstock.parallel.search.stages.solver import StageSolver, stage_positions
from penstock.parallel.search.stages.table import MOST_BYTES, OutOfTimeError, PipelineCuts, StageTable, never

COARSE_CUTS, FINE_CUTS, ALL_CUTS = 40, 300, 2000
"""Cuts of the coarse look; of the fine one, where a model has too many operators to cut at each."""
COARSE_SLACK = 1.15
"""A pipeline with coarse cuts may be so much slower than the best and still become better with fine ones."""
MIXED_COARSE = 4
"""Micro-batches, the fastest ones with uniform stages, for which mixed stages are looked at."""
FINEST_BUCKETS, COARSEST_BUCKETS, BUCKETED_OPS = 256, 16, 120_000
"""How finely recomputation is told apart while cuts are chosen: the longer the chain the less."""
EXACT, NEARLY_EXACT = (512, 8), (256, 4)
"""Buckets of memory and sizes of recomputed segments that are told apart: in the stages of a plan; in the stages among
which polishing chooses, and those of models with very many operators."""
LONG_CHAIN = 500
"""Operators from which on a loose bound comes before the tight one."""
MOST_STAGES = 64
POLISHED = 4
REACHES = (4, 12)
FOR_THE_BOUND = 0.4
"""Share of the budget that polishing leaves."""
FOR_THE_FIRST_BOUND = 0.4
"""Of the time, when the quick bound has to be done: what the search has left after its coarse look."""


def search(
    problem: Problem, budget_s: float = 20.0, on_better: Callable[[FoundPlan], None] | None = None,
    clock: Clock = time.perf_counter,
) -> SearchRecord:  # fmt: skip
    """The best plan within about ``budget_s`` seconds; the best so far if interrupted by Ctrl-C.

    Plans fit by Aceso's memory model with and without its quirks.

    ``SearchRecord.best`` is None if no plan fits.
    """
    run = _Run(SearchRecord(problem, budget_s, on_better, clock, repaired=True))
    try:
        run.coarse()
        run.first_bound()
        run.fine(run.promising())
        run.mix()
        run.polish()
        run.fine(run.unlikely())
        run.bound()
    except KeyboardInterrupt:
        pass
    run.progress.finish()
    return run.progress


@dataclass
class _Run:
    progress: SearchRecord
    pipelines: list[PipelineCuts] = field(default_factory=list)
    mixing: bool = False
    _refined: set[int] = field(default_factory=set)
    _known: dict[int, float] = field(default_factory=dict)
    """Seconds per iteration that no plan with a micro-batch undercuts."""
    _solvers: dict[bool, StageSolver] = field(default_factory=dict)

    @property
    def problem(self) -> Problem:
        return self.progress.problem

    def coarse(self) -> None:
        for micro_batch in self.problem.micro_batches:
            self._explore(micro_batch, _spread(self.problem.ops, COARSE_CUTS), COARSE_SLACK)

    def mix(self) -> None:
        """Whether mixed stages pay off: first between coarse cuts, then everywhere if that found a better plan."""
        if not self.problem.tables.mixes:
            return
        uniform = self.progress.best
        for micro_batch in self._by_promise()[:MIXED_COARSE]:
            self._explore(micro_batch, _spread(self.problem.ops, COARSE_CUTS), 1.02, mixing=True)
        self.mixing = self.progress.best is not uniform
        if self.mixing:
            self.fine(self._by_promise())

    def _by_promise(self) -> list[int]:
        """Micro-batches, the one of the best pipeline first."""
        reached: dict[int, float] = {}
        for pipeline in self.pipelines:
            size = pipeline.micro_batch
            reached[size] = min(reached.get(size, np.inf), self._iteration_us(pipeline))
        return sorted(self.problem.micro_batches, key=lambda size: reached.get(size, np.inf))

    def first_bound(self) -> None:
        """What is quickly known of micro-batches: those that cannot beat the coarse plan are not looked at again."""
        if self.progress.best is None:
            return
        best_s = self.progress.best.iteration_s
        for size in self._by_promise():
            found = relaxed_bound_s(self.problem, size, best_s, self._time_for_the_search)
            if not self._time_for_the_search():
                self._known[size] = found

    def _time_for_the_search(self) -> bool:
        return self.progress.elapsed_s >= FOR_THE_FIRST_BOUND * self.progress.budget_s

    def bound(self) -> None:
        if self.progress.best is None:
            return
        best_s, enough = self.progress.best.iteration_s, self.progress.enough
        bounds = {
            size: min(best_s, self._known.get(size) or relaxed_bound_s(self.problem, size, best_s, enough))
            for size in self._by_promise()
        }
        if self.problem.ops > LONG_CHAIN:
            bounds = {
                size: found or loose_bound_s(self.problem, size, best_s, enough) for size, found in bounds.items()
            }
        for level in PRICE_LEVELS:
            for size in sorted(bounds, key=bounds.__getitem__):
                if bounds[size] < best_s:
                    found = micro_batch_bound_s(self.problem, size, best_s, enough, (level,))
                    bounds[size] = max(bounds[size], found)
        self.progress.bound_s = min(bounds.values())

    def promising(self) -> list[int]:
        """Micro-batches for which coarse cuts gave a plan not far from the best, the best one first."""
        reached = {pipeline.micro_batch for pipeline in self.pipelines}
        return [size for size in self._by_promise() if size in reached]

    def unlikely(self) -> list[int]:
        return [size for size in self._by_promise() if size not in self._refined]

    def fine(self, micro_batches: list[int]) -> None:
        for micro_batch in micro_batches:
            if self._time_for_the_bound():
                return
            self._refined.add(micro_batch)
            if self.progress.best and self._known.get(micro_batch, 0.0) >= self.progress.best.iteration_s:
                continue
            cuts: NDArray[np.int64] | None = self._finest_cuts(micro_batch)
            while cuts is not None and not self.progress.enough():
                best = self._explore(micro_batch, cuts, 1.0, mixing=self.mixing)
                cuts = _nearer(self.problem.ops, cuts, best) if best else None

    def polish(self) -> None:
        quick = StageSolver(self.problem, self.mixing, *NEARLY_EXACT)
        ranked = sorted(set(self.pipelines), key=self._iteration_us)[:POLISHED]
        for reach in REACHES:
            before = list(ranked)
            for place, pipeline in enumerate(before):
                better = polished(quick, pipeline, reach, self._time_for_the_bound)
                if better is None:
                    return
                if better != pipeline:
                    ranked[place] = better
                    self._offer(better, self.mixing)
            if ranked == before:
                return

    def _time_for_the_bound(self) -> bool:
        return self.progress.elapsed_s >= (1 - FOR_THE_BOUND) * self.progress.budget_s

    def _explore(
        self, micro_batch: int, cuts: NDArray[np.int64], slack: float, mixing: bool = False
    ) -> PipelineCuts | None:
        """The best pipeline between ``cuts``, offered as a plan."""
        table = self._table(micro_batch, cuts, slack, mixing)
        if self.progress.enough() or not table.usable or table.bytes > MOST_BYTES:
            return None
        try:
            best = min(table.best(self.progress.enough), key=self._iteration_us, default=None)
        except OutOfTimeError:
            return None
        if best:
            self.pipelines.append(best)
            self._offer(best, mixing)
        return best

    def _table(self, micro_batch: int, cuts: NDArray[np.int64], slack: float, mixing: bool) -> StageTable:
        bound = self.progress.stage_bound_us(micro_batch) * slack
        stages = min(self.problem.mesh.devices, MOST_STAGES, len(cuts) - 1)
        buckets = max(COARSEST_BUCKETS, min(FINEST_BUCKETS, BUCKETED_OPS // self.problem.ops))
        return StageTable(self.problem, micro_batch, cuts, bound, stages, buckets, mixing, enough=self.progress.enough)

    def _finest_cuts(self, micro_batch: int) -> NDArray[np.int64]:
        """As many cuts as there are operators, or as a table may hold."""
        most = self.problem.ops + 1 if self.problem.ops < ALL_CUTS else FINE_CUTS
        while True:
            cuts = _spread(self.problem.ops, most)
            table = self._table(micro_batch, cuts, 1.0, self.mixing)
            if not table.usable or table.bytes <= MOST_BYTES or most <= COARSE_CUTS:
                return cuts
            most //= 2

    def _offer(self, pipeline: PipelineCuts, mixing: bool) -> None:
        buckets, allowances = EXACT if self.problem.ops < ALL_CUTS else NEARLY_EXACT
        solver = self._solvers.setdefault(mixing, StageSolver(self.problem, mixing, buckets, allowances))
        plan = assembled(solver, pipeline.micro_batch, pipeline.stages, self._late)
        if plan:
            self.progress.offer(plan)

    def _late(self) -> bool:
        """Time is up, and there is a plan: without one the first is still finished."""
        return self.progress.best is not None and self.progress.enough()

    def _iteration_us(self, pipeline: PipelineCuts) -> float:
        return pipeline.iteration_us(self.problem.global_batch // pipeline.micro_batch)


def assembled(
    solver: StageSolver, micro_batch: int, stages: tuple[CutStage, ...], enough: Callable[[], bool] = never
) -> ParallelPlan | None:
    """The plan of these cuts with every stage solved near exactly; None if one does not fit or time is up."""
    problem = solver.problem
    positions = stage_positions(problem, micro_batch, [stage.devices for stage in stages])
    solved = []
    for position, stage in zip(positions, stages, strict=True):
        one = None if enough() else solver.solve(position, stage)
        if one is None:
            return None
        solved.append(one)
    return ParallelPlan(
        model=problem.tables.chain.model, global_batch=problem.global_batch, micro_batch=micro_batch,
        stages=tuple(stage for _, stage in solved),
    )  # fmt: skip


def _spread(ops: int, most: int) -> NDArray[np.int64]:
    """At most ``most`` cuts evenly along the chain, its ends among them."""
    return np.unique(np.linspace(0, ops, min(ops + 1, most)).round().astype(np.int64))


def _nearer(ops: int, cuts: NDArray[np.int64], best: PipelineCuts) -> NDArray[np.int64] | None:
    """Finer cuts around those of ``best``; None where they are as fine as can be."""
    inner = [stage.stop for stage in best.stages[:-1]]
    places = np.searchsorted(cuts, inner)
    spacing = max((int(cuts[place + 1] - cuts[place]) for place in places), default=1)
    if spacing <= 1:
        return None
    around = np.arange(-2 * spacing, 2 * spacing + 1, max(1, spacing // 8))
    picked = np.unique(np.concatenate([[0, ops], *(cut + around for cut in inner)]))
    return picked[(picked >= 0) & (picked <= ops)]
