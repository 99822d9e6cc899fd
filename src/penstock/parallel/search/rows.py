"""Compiled loops over stages with one split: what every stage from one operator on takes, at best, within memory.

Recomputation is a knapsack: recomputing a run of operators costs their forward time and saves the activations of all
but the last. Aceso takes whole groups of equally named operators, largest first; here a dynamic programme along the
operators keeps, per bucket of saved memory, the cheapest choice, with exact sums beside it.
"""

import numpy as np

from penstock.core.jit import compiled
from penstock.parallel.search.strips import Floats, Ints, Limits, Strip, Target

COST, SAVED, PEAK, SEGMENT = 0, 1, 2, 3
"""What a choice of recomputed operators adds up to: microseconds; megabytes saved, of the largest closed segment, of
the open one. Choices are kept in [last operator recomputed, bucket of megabytes saved]."""


@compiled
def uniform_rows(starts: Ints, strip: Strip, limits: Limits, buckets: int, option: int, target: Target) -> None:
    """Enter what stages with one option for all operators take; those slower than the limit are left out.

    O(starts x longest stage x buckets).
    """
    choices, others = np.empty((2, buckets, 4)), np.empty((2, buckets, 4))
    cheapest = np.empty((buckets, 3))
    for start in starts:
        end, kept, tight = _reach(start, strip, limits, target.times.shape[0])
        if end == start:
            continue
        width = max(kept, 1e-6) / (buckets - 1)
        elapsed, kept, weights, fwd, bwd = strip.receives[start], 0.0, 0.0, 0.0, 0.0
        for op in range(start, end):
            elapsed += strip.work[op]
            kept += strip.activation[op]
            weights += strip.weight[op]
            if tight and op == start:
                _begin(op, strip, choices)
            elif tight:
                _advance(op, strip, width, choices, others)
                choices, others = others, choices
            fixed = limits.per_weight * weights + max(fwd + bwd, weights) - limits.memory_mb
            fwd, bwd = max(fwd, strip.fwd_reserved[op]), max(bwd, strip.bwd_reserved[op])
            if target.cut_index[op + 1] >= 0 and elapsed + strip.sends[op] <= limits.time_us:
                held = strip.enters[start] + kept
                needed = fixed + target.times.shape[0] * held > 0.0
                if needed:
                    _summarize(choices, cheapest)
                _enter(start, op, elapsed + strip.sends[op], fixed, held, width, cheapest, limits, option, target)


@compiled
def _reach(start: int, strip: Strip, limits: Limits, most: int) -> tuple[int, float, bool]:
    """The longest stage within the time limit, what it keeps, and whether memory could be short anywhere."""
    elapsed, kept, weights, fwd, bwd = strip.receives[start], 0.0, 0.0, 0.0, 0.0
    end, tight = start, False
    for op in range(start, strip.work.shape[0]):
        elapsed += strip.work[op]
        if elapsed > limits.time_us:
            break
        kept += strip.activation[op]
        weights += strip.weight[op]
        held = limits.per_weight * weights + most * (strip.enters[start] + kept) + max(fwd + bwd, weights)
        tight = tight or held > limits.memory_mb
        fwd, bwd = max(fwd, strip.fwd_reserved[op]), max(bwd, strip.bwd_reserved[op])
        end = op + 1
    return end, kept, tight


@compiled
def _begin(op: int, strip: Strip, choices: Floats) -> None:
    choices[:, :, COST] = np.inf
    choices[0, 0, :] = 0.0
    if not strip.pinned[op]:
        choices[1, 0, :] = 0.0
        choices[1, 0, COST] = strip.forward[op]


@compiled
def _advance(op: int, strip: Strip, width: float, choices: Floats, out: Floats) -> None:
    """Every choice with operator ``op`` kept, and with it recomputed."""
    out[:, :, COST] = np.inf
    gain, alive, closed = strip.saved[op - 1], strip.activation[op - 1], strip.closes[op - 1]
    again = np.inf if strip.pinned[op] else strip.forward[op]
    last = choices.shape[1] - 1
    for at in range(choices.shape[1]):
        cost = choices[0, at, COST]
        if cost < np.inf:
            _keep(out[0, at], cost, choices[0, at, SAVED], choices[0, at, PEAK], 0.0)
            _keep(out[1, at], cost + again, choices[0, at, SAVED], choices[0, at, PEAK], 0.0)
        cost = choices[1, at, COST]
        if cost < np.inf:
            saved, peak, segment = choices[1, at, SAVED], choices[1, at, PEAK], choices[1, at, SEGMENT]
            _keep(out[0, at], cost, saved, max(peak, segment), 0.0)
            segment += alive
            to = min(int((saved + gain) / width), last)
            if closed:
                _keep(out[1, to], cost + again, saved + gain, max(peak, segment), 0.0)
            else:
                _keep(out[1, to], cost + again, saved + gain, peak, segment)


@compiled
def _keep(slot: Floats, cost: float, saved: float, peak: float, segment: float) -> None:
    if cost < slot[COST]:
        slot[COST], slot[SAVED], slot[PEAK], slot[SEGMENT] = cost, saved, peak, segment


@compiled
def _summarize(choices: Floats, cheapest: Floats) -> None:
    """``cheapest[bucket]``: cost, saved and peak of the cheapest choice that saves as much as the bucket or more."""
    cost, saved, peak = np.inf, 0.0, 0.0
    for at in range(choices.shape[1] - 1, -1, -1):
        for again in range(2):
            choice = choices[again, at]
            if choice[COST] < cost:
                cost, saved = choice[COST], choice[SAVED]
                peak = max(choice[PEAK], choice[SEGMENT]) if again == 1 else choice[PEAK]
        cheapest[at, COST], cheapest[at, SAVED], cheapest[at, PEAK] = cost, saved, peak


@compiled
def _enter(
    start: int, op: int, elapsed: float, fixed: float, held: float, width: float, cheapest: Floats, limits: Limits,
    option: int, target: Target,
) -> None:  # fmt: skip
    """Times of the stage from ``start`` to ``op`` for every number of later stages, until one cannot be."""
    buckets = cheapest.shape[0]
    cut = target.cut_index[op + 1]
    inside = cut - target.cut_index[start] - 1
    at = 0
    for later in range(target.times.shape[0]):
        need = fixed + (later + 1) * held
        total = elapsed
        if need > 0.0:
            at = max(at, int(need / (later + 1) / width))
            while at < buckets and (later + 1) * cheapest[at, SAVED] - cheapest[at, PEAK] < need:
                at += 1
            if at >= buckets:
                return
            total += cheapest[at, COST]
        if total > limits.time_us:
            return
        if total < target.times[later, cut, inside]:
            target.times[later, cut, inside] = total
            target.chosen[later, cut, inside] = option
