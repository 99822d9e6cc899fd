"""Compiled loops over stages with one split: what no stage from one operator on can beat.

Recomputation is relaxed to a fractional knapsack: an operator that is computed again saves what it keeps at the price
of its own forward pass, in part if need be, and what closes a run of them is not charged. Operators are taken by price
per megabyte until the stage fits, which is the least any choice costs; that they must be held again is not counted.
"""

import numpy as np

from penstock.parallel.search.stages.arrays import ChainCosts, Floats, Ints, StageLimits, Target
from penstock.tools import compiled


def by_price(costs: ChainCosts) -> Ints:
    """The rank of every operator by what saving a megabyte with it costs; equal ones share a rank."""
    price = np.where(costs.saved > 0, costs.forward / np.maximum(costs.saved, 1e-12), np.inf)
    return np.unique(price, return_inverse=True)[1].astype(np.int64)


@compiled
def relaxed_rows(
    starts: Ints, costs: ChainCosts, ranks: Ints, limits: StageLimits, open_end: bool, option: int, target: Target
) -> None:
    """Enter what stages from ``starts`` on take at least; with ``open_end`` also longer stages that begin alike.

    ``ranks``: by :func:`by_price`.
    O(starts x longest stage x (ranks + later stages)).
    """
    savings, prices = np.zeros(ranks.max() + 1), np.zeros(ranks.max() + 1)
    for start in starts:
        savings[:], prices[:] = 0.0, 0.0
        elapsed, kept, weights, fwd, bwd = costs.receives[start], 0.0, 0.0, 0.0, 0.0
        for op in range(start, costs.work.shape[0]):
            elapsed += costs.work[op]
            if elapsed > limits.time_us:
                break
            kept += costs.activation[op]
            weights += costs.weight[op]
            if open_end or op > start:
                _add(op if open_end else op - 1, costs, ranks, savings, prices)
            fixed = limits.per_weight * weights + max(fwd + bwd, weights) - limits.memory_mb
            if fixed > 0.0:
                break
            fwd, bwd = max(fwd, costs.fwd_reserved[op]), max(bwd, costs.bwd_reserved[op])
            if target.cut_index[op + 1] >= 0:
                held = costs.enters[start] + kept
                _enter(start, op, elapsed + costs.sends[op], fixed, held, savings, prices, limits, option, target)


@compiled
def _add(op: int, costs: ChainCosts, ranks: Ints, savings: Floats, prices: Floats) -> None:
    savings[ranks[op]] += costs.saved[op]
    prices[ranks[op]] += costs.forward[op]


@compiled
def _enter(
    start: int, op: int, elapsed: float, fixed: float, held: float, savings: Floats, prices: Floats,
    limits: StageLimits, option: int, target: Target,
) -> None:  # fmt: skip
    """Times for every number of later stages, until one cannot be; the more of them, the more must be saved."""
    cut = target.cut_index[op + 1]
    inside = cut - target.cut_index[start] - 1
    if inside >= target.times.shape[2]:
        return
    rank, saved, spent = 0, 0.0, 0.0
    for later in range(target.times.shape[0]):
        need = held + fixed / (later + 1)
        while rank < savings.shape[0] and saved + savings[rank] < need:
            saved += savings[rank]
            spent += prices[rank]
            rank += 1
        if need > saved and rank == savings.shape[0]:
            return
        total = elapsed + spent
        if need > saved:
            total += prices[rank] * (need - saved) / savings[rank]
        if total > limits.time_us:
            return
        if total < target.times[later, cut, inside]:
            target.times[later, cut, inside] = total
            target.chosen[later, cut, inside] = option
