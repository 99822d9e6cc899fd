"""Compiled loops over stages with one split: what every stage from one operator on takes, at best, within memory.

Recomputation is a knapsack: recomputing a run of operators costs their forward time and saves the activations of all
but the last. Aceso takes whole groups of equally named operators, largest first; here a dynamic programme along the
operators keeps, per bucket of missed savings, the cheapest choice, with exact sums beside it. Buckets are narrow where
little is missed, because that is where a stage that hardly fits is decided.
"""

import numpy as np

from penstock.parallel.search.stages.arrays import ChainCosts, Floats, Ints, StageLimits, Target
from penstock.tools import compiled

COST, MISSED, PEAK, SEGMENT = 0, 1, 2, 3
"""What a choice of recomputed operators adds up to: microseconds; megabytes not saved that could be, of the largest
closed segment, of the open one. Choices are kept in [last operator recomputed, bucket of megabytes missed]."""


@compiled
def uniform_rows(
    starts: Ints, costs: ChainCosts, limits: StageLimits, buckets: int, option: int, target: Target
) -> None:
    """Enter what stages with one option for all operators take; those slower than the limit are left out.

    O(starts x longest stage x buckets).
    """
    choices, others = np.empty((2, buckets, 4)), np.empty((2, buckets, 4))
    cheapest = np.empty((buckets, 3))
    for start in starts:
        end, widest, tight = _reach(start, costs, limits, target.times.shape[0])
        elapsed, kept, weights, fwd, bwd = costs.receives[start], 0.0, 0.0, 0.0, 0.0
        possible = 0.0
        for op in range(start, end):
            elapsed += costs.work[op]
            kept += costs.activation[op]
            weights += costs.weight[op]
            if tight and op == start:
                _begin(op, costs, choices)
            elif tight:
                gain = _gain(costs, op)
                possible += gain
                _advance(op, costs, gain, widest, choices, others)
                choices, others = others, choices
            fwd, bwd = max(fwd, costs.fwd_reserved[op]), max(bwd, costs.bwd_reserved[op])
            fixed = limits.per_weight * weights + max(fwd + bwd, weights) - limits.memory_mb
            if target.cut_index[op + 1] >= 0 and elapsed + costs.sends[op] <= limits.time_us:
                held = costs.enters[start] + kept
                needed = fixed + target.times.shape[0] * held > 0.0
                if needed:
                    _summarize(choices, cheapest)
                whole = elapsed + costs.sends[op]
                _enter(start, op, whole, fixed, held, possible, widest, cheapest, limits, option, target)


@compiled
def _reach(start: int, costs: ChainCosts, limits: StageLimits, most: int) -> tuple[int, float, bool]:
    """The end of the longest stage within the time limit, what it could save, and whether memory may be short."""
    elapsed, kept, weights, fwd, bwd = costs.receives[start], 0.0, 0.0, 0.0, 0.0
    end, tight, possible = start, False, 0.0
    for op in range(start, costs.work.shape[0]):
        elapsed += costs.work[op]
        if elapsed > limits.time_us:
            break
        kept += costs.activation[op]
        weights += costs.weight[op]
        fwd, bwd = max(fwd, costs.fwd_reserved[op]), max(bwd, costs.bwd_reserved[op])
        held = limits.per_weight * weights + most * (costs.enters[start] + kept) + max(fwd + bwd, weights)
        tight = tight or held > limits.memory_mb
        possible += _gain(costs, op) if op > start else 0.0
        end = op + 1
    return end, max(possible, 1e-6), tight


@compiled
def _gain(costs: ChainCosts, op: int) -> float:
    """Megabytes saved by recomputing ``op`` together with the operator before it."""
    return 0.0 if costs.pinned[op] or costs.pinned[op - 1] else costs.saved[op - 1]


@compiled
def _bucket(missed: float, widest: float, buckets: int) -> int:
    return min(int((buckets - 1) * np.sqrt(max(missed, 0.0) / widest)), buckets - 1)


@compiled
def _begin(op: int, costs: ChainCosts, choices: Floats) -> None:
    choices[:, :, COST] = np.inf
    choices[0, 0, :] = 0.0
    if not costs.pinned[op]:
        choices[1, 0, :] = 0.0
        choices[1, 0, COST] = costs.forward[op]


@compiled
def _advance(op: int, costs: ChainCosts, gain: float, widest: float, choices: Floats, out: Floats) -> None:
    """Every choice with operator ``op`` kept, and with it recomputed."""
    out[:, :, COST] = np.inf
    alive, closed = costs.activation[op - 1], costs.closes[op - 1]
    again = np.inf if costs.pinned[op] else costs.forward[op]
    buckets = choices.shape[1]
    for at in range(buckets):
        cost, missed, peak = choices[0, at, COST], choices[0, at, MISSED] + gain, choices[0, at, PEAK]
        if cost < np.inf:
            to = _bucket(missed, widest, buckets)
            _keep(out[0, to], cost, missed, peak, 0.0)
            _keep(out[1, to], cost + again, missed, peak, 0.0)
        cost, missed, peak = choices[1, at, COST], choices[1, at, MISSED], choices[1, at, PEAK]
        if cost < np.inf:
            segment = choices[1, at, SEGMENT]
            _keep(out[0, _bucket(missed + gain, widest, buckets)], cost, missed + gain, max(peak, segment), 0.0)
            segment += alive
            if closed:
                _keep(out[1, at], cost + again, missed, max(peak, segment), 0.0)
            else:
                _keep(out[1, at], cost + again, missed, peak, segment)


@compiled
def _keep(slot: Floats, cost: float, missed: float, peak: float, segment: float) -> None:
    if cost < slot[COST]:
        slot[COST], slot[MISSED], slot[PEAK], slot[SEGMENT] = cost, missed, peak, segment


@compiled
def _summarize(choices: Floats, cheapest: Floats) -> None:
    """``cheapest[bucket]``: cost, missed and peak of the cheapest choice that misses no more than the bucket."""
    cost, missed, peak = np.inf, 0.0, 0.0
    for at in range(choices.shape[1]):
        for again in range(2):
            choice = choices[again, at]
            if choice[COST] < cost:
                cost, missed = choice[COST], choice[MISSED]
                peak = max(choice[PEAK], choice[SEGMENT]) if again == 1 else choice[PEAK]
        cheapest[at, COST], cheapest[at, MISSED], cheapest[at, PEAK] = cost, missed, peak


@compiled
def _enter(
    start: int, op: int, elapsed: float, fixed: float, held: float, possible: float, widest: float, cheapest: Floats,
    limits: StageLimits, option: int, target: Target,
) -> None:  # fmt: skip
    """Times of the stage from ``start`` to ``op`` for every number of later stages, until one cannot be."""
    cut = target.cut_index[op + 1]
    inside = cut - target.cut_index[start] - 1
    at = cheapest.shape[0] - 1
    for later in range(target.times.shape[0]):
        need = fixed + (later + 1) * held
        total = elapsed
        if need > 0.0:
            at = min(at, _bucket(possible - need / (later + 1), widest, cheapest.shape[0]))
            while at >= 0 and (later + 1) * (possible - cheapest[at, MISSED]) - cheapest[at, PEAK] < need:
                at -= 1
            if at < 0:
                return
            total += cheapest[at, COST]
        if total > limits.time_us:
            return
        if total < target.times[later, cut, inside]:
            target.times[later, cut, inside] = total
            target.chosen[later, cut, inside] = option
