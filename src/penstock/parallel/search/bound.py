"""What no plan can beat: the distance from a plan to the best there may be.

For every micro-batch, every stage gets a bound of its time under the memory limit: the Lagrangian dual over all splits,
variants and recomputations at once. Where the operators of a stage are split alike, a fractional knapsack for each
split (:mod:`stages.relaxed`) comes first, which is there in seconds. The pipelines of such stages are then searched
exactly. Where a model has too many operators for that, the same between a few cuts (:func:`loose_bound_s`), or the work
itself: each operator on its most efficient split, perfectly balanced.

"No plan" means none of those the search may choose from: 1, 2, 4 or 8 devices per stage within a node, measured splits
and micro-batches, variants where tensors are split, any operators recomputed.
"""

from collections.abc import Callable, Sequence

import numpy as np

from penstock.parallel.operators import Floats
from penstock.parallel.search.problem import Problem
from penstock.parallel.search.stages.table import BOUND_PRICES, StageTable

PRICE_LEVELS = (BOUND_PRICES[::4], BOUND_PRICES)
"""Few prices of memory first, which is quicker, then all."""
BOUND_BYTES = 1_200_000_000
"""What the times of one table of bounds may take up."""
LOOSE_CUTS = 160
"""Between so many cuts the first bound of a long chain is found; the more, the nearer and the slower."""


def loose_bound_s(
    problem: Problem, micro_batch: int, best_s: float, enough: Callable[[], bool], cuts: int = LOOSE_CUTS
) -> float:
    """A bound as below, some percent lower, from a table between a few cuts; 0 if that takes too long."""
    places = np.unique(np.linspace(0, problem.ops, min(problem.ops + 1, cuts)).round().astype(np.int64))
    bound_us = best_s * 1e6 / (problem.global_batch // micro_batch)
    table = StageTable(
        problem, micro_batch, places, bound_us, problem.mesh.devices, bounding=True, parts=True,
        prices=BOUND_PRICES[::2], enough=enough,
    )  # fmt: skip
    if not table.usable:
        return best_s
    if table.bytes > BOUND_BYTES:
        return 0.0
    return min(best_s, (table.loose_floor_us(enough) or 0.0) / 1e6)


def relaxed_bound_s(problem: Problem, micro_batch: int, best_s: float, enough: Callable[[], bool]) -> float:
    """A bound as below from relaxed stages, where these have one split each; 0 elsewhere or if there is no time."""
    if problem.tables.mixes:
        return 0.0
    table = _table(problem, micro_batch, best_s, BOUND_PRICES, enough, relaxed=True)
    if not table.usable:
        return best_s
    if table.bytes > BOUND_BYTES:
        return 0.0
    return min(best_s, (table.floor_us(enough) or 0.0) / 1e6)


def micro_batch_bound_s(
    problem: Problem, micro_batch: int, best_s: float, enough: Callable[[], bool],
    levels: Sequence[Floats] = PRICE_LEVELS,
) -> float:  # fmt: skip
    """Seconds per iteration that no plan with this micro-batch undercuts, or ``best_s`` if that is less.

    ``levels``: prices of memory, tried one set after the other. Only the simple bound once ``enough()``; the answer is
    a bound at any time.
    """
    bound_s = 0.0
    for prices in levels:
        table = _table(problem, micro_batch, best_s, prices, enough)
        if not table.usable:
            return best_s
        simple_s = float(table.least_work.sum()) / problem.mesh.devices * table.micro_batches / 1e6
        bound_s = max(bound_s, simple_s)
        if bound_s >= best_s or enough() or table.bytes > BOUND_BYTES:
            break
        bound_s = max(bound_s, (table.floor_us(enough) or 0.0) / 1e6)
    return min(bound_s, best_s)


def _table(
    problem: Problem, micro_batch: int, best_s: float, prices: Floats, enough: Callable[[], bool], relaxed: bool = False
) -> StageTable:
    bound_us = best_s * 1e6 / (problem.global_batch // micro_batch)
    every_cut, devices = np.arange(problem.ops + 1), problem.mesh.devices
    return StageTable(
        problem, micro_batch, every_cut, bound_us, devices, bounding=True, relaxed=relaxed, prices=prices, enough=enough
    )
