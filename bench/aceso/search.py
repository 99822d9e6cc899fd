"""Aceso's search as published: iterative bottleneck alleviation by reconfiguration primitives.

Liu et al., "Aceso: Efficient Parallel DNN Training through Iterative Bottleneck Alleviation", EuroSys'24. For every
number of stages a search of its own climbs from a balanced configuration: find the bottleneck stage, try primitives
that relieve it, several hops deep, keep what improves, never visit a configuration twice. Here as the baseline our
:mod:`~penstock.parallel.search.anytime` search is measured against; the algorithm and its constants are the
artifact's, the numbers of stages are searched one after the other instead of in parallel processes.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.aceso.config import AcesoConfig, Space
from bench.aceso.policy import groups
from bench.aceso.primitives import PRIMITIVES, SWAPS, Primitive
from bench.aceso.tuning import tuned
from bench.aceso.visits import Visits
from penstock.core import ParallelStage
from penstock.parallel.search.problem import FoundPlan, Problem
from penstock.parallel.search.record import Clock, SearchRecord

MOST_STAGES = 16
MOST_TRIALS = 100
MOST_HOPS = 7
POOL_FACTOR = 1.2
"""Configurations slower than the best by more than this are not kept for later."""
MOST_REVISITS = 5


def search(
    problem: Problem, budget_s: float = 200.0, on_better: Callable[[FoundPlan], None] | None = None,
    clock: Clock = time.perf_counter, tune: bool | None = None, stage_counts: Sequence[int] | None = None,
    swaps: bool = False, by_device_time: bool = False,
) -> SearchRecord:  # fmt: skip
    """The best plan over ``stage_counts``, by default 1 to 16 stages, each with an equal part of ``budget_s``.

    ``tune``: fine tuning after every trial; by default for models without repeated layers, as the artifact does.
    ``swaps``: two more primitives that exchange tp and dp inside a stage; ``by_device_time``: candidates are followed
    in order of their total device time instead of their slowest stage (the artifact's large Wide-ResNet runs).
    """
    progress = SearchRecord(problem, budget_s, on_better, clock)
    tune = not problem.tables.chain.repeats if tune is None else tune
    space = Space(problem)
    counts = stage_counts or range(1, min(problem.mesh.devices, MOST_STAGES, problem.ops) + 1)
    try:
        for place, count in enumerate(counts):
            share = progress.elapsed_s + (budget_s - progress.elapsed_s) / (len(counts) - place)
            start = balanced(space, count)
            if start is not None:
                _Climb(progress, share, tune, PRIMITIVES + SWAPS * swaps, by_device_time).run(start)
    except KeyboardInterrupt:
        pass
    progress.finish()
    return progress


def balanced(space: Space, count: int) -> AcesoConfig | None:
    """Operators evenly over ``count`` stages, devices doubled in turn, all of them tensor-parallel, smallest batch."""
    total = space.problem.mesh.devices
    devices = [1] * count
    grown = True
    while sum(devices) < total and grown:
        grown = False
        for number in range(count):
            if devices[number] < space.most_tp and devices[number] <= total - sum(devices):
                devices[number] *= 2
                grown = True
    if sum(devices) != total:
        return None
    ops = [space.problem.ops // count] * count
    ops[-1] += space.problem.ops - sum(ops)
    stages = [ParallelStage.uniform(size, tp=tp) for size, tp in zip(ops, devices, strict=True)]
    for micro_batch in space.micro_batches[:1]:
        start = 0
        for stage in stages:
            if not space.runnable(start, stage, micro_batch):
                return None
            start += stage.ops
        return space.config(micro_batch, space.all_recomputed(micro_batch, stages))
    return None


@dataclass
class _Climb:
    """The search for one number of stages."""

    progress: SearchRecord
    until_s: float
    tune: bool
    primitives: tuple[Primitive, ...] = PRIMITIVES
    by_device_time: bool = False
    visits: Visits = field(default_factory=Visits)
    unexplored: list[AcesoConfig] = field(default_factory=list)
    explored: list[AcesoConfig] = field(default_factory=list)
    revisits: dict[int, int] = field(default_factory=dict)
    best_ms: float = float("inf")

    def enough(self) -> bool:
        return self.progress.elapsed_s >= self.until_s

    def run(self, config: AcesoConfig) -> None:
        memory = config.memory_mb
        limit = self.progress.problem.mesh.memory_mb
        self._keep(config)
        again = False
        for _ in range(MOST_TRIALS):
            if self.enough():
                return
            found = self._trial(config, again)
            found = tuned(found) if self.tune else found
            again = False
            if (found.fits and found.time_ms < self.best_ms) or (memory > limit and found.memory_mb < memory):
                config, memory = found, found.memory_mb
                self._keep(found)
                continue
            following = self._next_unexplored()
            if following is None:
                following, again = self._next_explored(), True
            if following is None:
                return
            config = following

    def _keep(self, config: AcesoConfig) -> None:
        if config.fits and config.time_ms < self.best_ms:
            self.best_ms = config.time_ms
            self.progress.offer(config.plan)

    def _trial(self, config: AcesoConfig, again: bool) -> AcesoConfig:
        """One target after the other until something beats the best; else the best that was seen."""
        self.visits.partners.clear()
        seen = [config]
        for _ in config.stages:
            found = self._hop(config, 0, again)
            if found is not None:
                seen.append(found)
                if self._improves(found):
                    return found
        return _best(seen)

    def _hop(self, config: AcesoConfig, depth: int, again: bool) -> AcesoConfig | None:
        """Primitives on the bottleneck, group by group; deeper from each result if none improves at once."""
        if depth == MOST_HOPS or self.enough():
            return None
        self.visits.configs.add(config.key)
        if not again:
            self.explored.append(config)
            self.unexplored = [one for one in self.unexplored if one is not config]
        target = self.visits.target(config, again=again)
        if target is None:
            return None
        seen = [config]
        for group in groups(config, target, self.primitives):
            candidates = self._candidates(config, target, group)
            improved = [one for one in candidates if self._improves(one)]
            if improved:
                return min(improved, key=lambda one: one.time_ms)
            for candidate in sorted(candidates, key=self._order):
                seen.append(candidate)
                found = self._hop(candidate, depth + 1, again=False)
                if found is not None:
                    if self._improves(found):
                        return found
                    seen.append(found)
        return _best(seen)

    def _candidates(self, config: AcesoConfig, target: int, group: list[Primitive]) -> list[AcesoConfig]:
        found = []
        for primitive in group:
            if self.enough():
                break
            candidate = primitive.apply(config, target, self.visits, self.enough)
            if candidate is None or candidate.key in self.visits.configs:
                continue
            found.append(candidate)
            if candidate.time_ms < self.best_ms * POOL_FACTOR:
                self.unexplored.append(candidate)
        return found

    def _order(self, config: AcesoConfig) -> float:
        return config.device_ms if self.by_device_time else config.time_ms

    def _improves(self, config: AcesoConfig) -> bool:
        return config.fits and config.time_ms < self.best_ms

    def _next_unexplored(self) -> AcesoConfig | None:
        if not self.unexplored:
            return None
        best = _best(self.unexplored)
        self.unexplored = [one for one in self.unexplored if one is not best]
        return best

    def _next_explored(self) -> AcesoConfig | None:
        """An explored configuration once more, visited marks ignored; each at most five times."""
        open_ones = [one for one in self.explored if self.revisits.get(id(one), 0) < MOST_REVISITS]
        if not open_ones:
            return None
        best = _best(open_ones)
        self.revisits[id(best)] = self.revisits.get(id(best), 0) + 1
        return best


def _best(configs: list[AcesoConfig]) -> AcesoConfig:
    """The fastest that fits, else the one that is nearest to fitting."""
    fitting = [config for config in configs if config.fits]
    if fitting:
        return min(fitting, key=lambda config: config.time_ms)
    return min(configs, key=lambda config: config.memory_mb)
