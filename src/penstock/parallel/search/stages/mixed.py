"""Compiled loops over stages whose operators may each be split differently.

Both are dynamic programmes along the operators with states (option, recomputed or not) of the last one.
:func:`priced_rows` puts prices on memory, in microseconds per megabyte, and keeps the path of least total for each:
quick, for filling tables, and by duality a bound on what any path can do. :func:`bucket_row` keeps the fastest path
for each bucket of memory in use: slower and near exact, for the last word on a stage.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.parallel.search.stages.arrays import ChainCosts, Floats, Ints, StageLimits, Target
from penstock.tools import compiled

TIME, WEIGHTS, KEPT, SEGMENT, PEAK, FWD, BWD, ENTERS = 0, 1, 2, 3, 4, 5, 6, 7
"""What a path adds up to: microseconds; megabytes of weights, of kept activations, of the open recomputed segment, of
the largest closed one, reserved forward and backward, of the stage's input."""
FIELDS = 8
FORBIDDEN_US = 1e8


@compiled
def _memory(path: Floats, later: int, per_weight: float, allowance: float) -> float:
    """Megabytes of a stage that adds up to ``path``, at least ``allowance`` of them for recomputed segments."""
    held = per_weight * path[WEIGHTS] + (later + 1) * (path[ENTERS] + path[KEPT])
    peak = max(path[SEGMENT], path[PEAK], allowance)
    return float(held + peak + max(path[FWD] + path[BWD], path[WEIGHTS]))


@compiled
def _first(costs: ChainCosts, op: int, option: int, again: int, out: Floats) -> None:
    """The path of one operator."""
    out[:] = 0.0
    out[TIME] = costs.work[option, op] + again * costs.forward[option, op] + costs.receives[option, op]
    out[WEIGHTS] = costs.weight[option, op]
    out[ENTERS] = costs.enters[option, op]


@compiled
def _extend(
    path: Floats, costs: ChainCosts, op: int, before: int, option: int, again: int, both: bool, out: Floats
) -> None:
    """``path``, whose last operator ran with option ``before``, and operator ``op`` with ``option`` behind it."""
    previous = costs.activation[before, op - 1]
    out[TIME] = path[TIME] + costs.work[option, op] + costs.move[op, before, option]
    out[TIME] += again * costs.forward[option, op]
    out[WEIGHTS] = path[WEIGHTS] + costs.weight[option, op]
    out[KEPT] = path[KEPT] + previous - (costs.saved[before, op - 1] if both else 0.0)
    segment = path[SEGMENT] + previous if both else path[SEGMENT]
    over = costs.closes[op - 1] or not both
    out[SEGMENT] = 0.0 if over else segment
    out[PEAK] = max(path[PEAK], segment) if over else path[PEAK]
    out[FWD] = max(path[FWD], costs.fwd_reserved[before, op - 1])
    out[BWD] = max(path[BWD], costs.bwd_reserved[before, op - 1])
    out[ENTERS] = path[ENTERS]


@compiled
def bucket_row(
    start: int, shortest: int, stop: int, costs: ChainCosts, limits: StageLimits, later: int, allowance: float,
    buckets: int, fastest: Floats, ends: Ints, back: NDArray[np.int32],
) -> None:  # fmt: skip
    """Fill ``fastest[i]`` with the least time of the stage of i + 1 operators from ``start`` on.

    ``allowance``: megabytes set aside for recomputed segments; a first segment saves nothing by itself and would look
    useless without. Stages of fewer than ``shortest`` operators need not be told apart finely. ``back[i, state, slot]``
    is the state and slot it came from and ``ends[i]`` where the best path ends, for walking back; an empty ``back``
    leaves both out. O(operators x options^2 x buckets).
    """
    states = 2 * costs.work.shape[0]
    least = _least_memory(start, stop, costs, later, limits.per_weight) + allowance
    width = max(limits.memory_mb - least[shortest - 1], limits.memory_mb * 1e-3) / buckets
    paths, others = np.empty((states, buckets, FIELDS)), np.empty((states, buckets, FIELDS))
    for op in range(start, stop):
        others[:, :, TIME] = np.inf
        _step(op, start, costs, limits, later, allowance, least[op - start], width, paths, others, back)
        paths, others = others, paths
        best, where = _finish(op, costs, limits, later, allowance, paths)
        fastest[op - start] = best
        if back.shape[0] > 0:
            ends[op - start] = where
        if np.min(paths[:, :, TIME]) == np.inf:
            break


@compiled
def _least_memory(start: int, stop: int, costs: ChainCosts, later: int, per_weight: float) -> Floats:
    """Megabytes that the operators from ``start`` on hold at the very least, without reserved memory and peaks."""
    least = np.zeros(stop - start)
    running = 0.0
    for op in range(start, stop):
        enters, weight, kept = np.inf, np.inf, np.inf
        for option in range(costs.work.shape[0]):
            if costs.work[option, op] < np.inf:
                enters = min(enters, costs.enters[option, op])
                weight = min(weight, costs.weight[option, op])
            if op > start and costs.work[option, op - 1] < np.inf:
                kept = min(kept, costs.activation[option, op - 1] - costs.saved[option, op - 1])
        running += per_weight * weight + (later + 1) * (enters if op == start else kept)
        least[op - start] = running
    return least


@compiled
def _step(
    op: int, start: int, costs: ChainCosts, limits: StageLimits, later: int, allowance: float, least: float,
    width: float, paths: Floats, out: Floats, back: NDArray[np.int32],
) -> None:  # fmt: skip
    """All paths with operator ``op`` behind them, in every option, kept and recomputed."""
    states, buckets = paths.shape[0], paths.shape[1]
    trial = np.empty(FIELDS)
    for state in range(states):
        option, again = state // 2, state % 2
        if costs.work[option, op] == np.inf or (again == 1 and costs.pinned[op]):
            continue
        if op == start:
            _first(costs, op, option, again, trial)
            _put(trial, limits, later, allowance, least, width, out[state])
            continue
        for source in range(states):
            before = source // 2
            if costs.move[op, before, option] >= FORBIDDEN_US:
                continue
            both = again == 1 and source % 2 == 1
            for slot in range(buckets):
                if paths[source, slot, TIME] + costs.work[option, op] > limits.time_us:
                    continue
                if paths[source, slot, TIME] == np.inf:
                    continue
                _extend(paths[source, slot], costs, op, before, option, again, both, trial)
                at = _put(trial, limits, later, allowance, least, width, out[state])
                if at >= 0 and back.shape[0] > 0:
                    back[op - start, state, at] = source * buckets + slot


@compiled
def _put(
    path: Floats, limits: StageLimits, later: int, allowance: float, least: float, width: float, slots: Floats
) -> int:
    """Keep ``path`` if it is the fastest of its bucket and within the limits; its bucket, or -1.

    Buckets tell apart what a path holds beyond the least possible, leaving reserved memory aside.
    """
    memory = _memory(path, later, limits.per_weight, allowance)
    if memory > limits.memory_mb or path[TIME] > limits.time_us:
        return -1
    beyond = memory - max(path[FWD] + path[BWD], path[WEIGHTS]) - least
    at: int = min(max(int(beyond / width), 0), slots.shape[0] - 1)
    if path[TIME] >= slots[at, TIME]:
        return -1
    slots[at] = path
    return at


@compiled
def _finish(
    op: int, costs: ChainCosts, limits: StageLimits, later: int, allowance: float, paths: Floats
) -> tuple[float, int]:
    """The fastest stage that ends with ``op``, and the state and slot it is in."""
    best, where = np.inf, -1
    path = np.empty(FIELDS)
    for state in range(paths.shape[0]):
        option = state // 2
        for slot in range(paths.shape[1]):
            elapsed = paths[state, slot, TIME] + costs.sends[option, op]
            if elapsed >= best or elapsed > limits.time_us:
                continue
            path[:] = paths[state, slot]
            path[KEPT] += costs.activation[option, op]
            path[FWD] = max(path[FWD], costs.fwd_reserved[option, op])
            path[BWD] = max(path[BWD], costs.bwd_reserved[option, op])
            if _memory(path, later, limits.per_weight, allowance) <= limits.memory_mb:
                best, where = elapsed, state * paths.shape[1] + slot
    return best, where


@compiled
def priced_rows(
    starts: Ints,
    costs: ChainCosts,
    limits: StageLimits,
    prices: Floats,
    laters: Ints,
    bounding: bool,
    open_end: bool,
    option: int,
    target: Target,
) -> None:
    """Enter what stages of mixed options take, as the module ``uniform`` does for uniform ones.

    Only the numbers of later stages in ``laters`` are computed; a number in between has the times of the next one.
    With ``bounding``, enter instead what no stage can beat (the Lagrangian dual; a number of later stages in between
    has the bound of the one before); with ``open_end`` also for longer stages that begin alike.
    O(starts x operators x options^2 x prices) per number of later stages.
    """
    states, slots = 2 * costs.work.shape[0], prices.shape[0]
    keys, other_keys = np.empty((states, slots)), np.empty((states, slots))
    paths, other_paths = np.zeros((states, slots, FIELDS)), np.zeros((states, slots, FIELDS))
    for place in range(laters.shape[0]):
        later = laters[place]
        if bounding:
            low, high = later, laters[place + 1] if place + 1 < laters.shape[0] else later + 1
        else:
            low, high = laters[place - 1] + 1 if place > 0 else 0, later + 1
        for start in starts:
            for op in range(start, costs.work.shape[1]):
                other_keys[:] = np.inf
                if op == start:
                    _begin_priced(op, costs, limits, prices, later, other_keys, other_paths)
                else:
                    _step_priced(op, costs, limits, prices, later, bounding, keys, paths, other_keys, other_paths)
                keys, other_keys = other_keys, keys
                paths, other_paths = other_paths, paths
                if _hopeless(keys, limits, prices):
                    break
                cut = target.cut_index[op + 1]
                inside = cut - target.cut_index[start] - 1
                if cut < 0 or inside >= target.times.shape[2]:
                    continue
                if bounding:
                    value = _dual(op, costs, limits, prices, later, keys, open_end)
                else:
                    value = _finish(op, costs, limits, later, 0.0, paths)[0]
                for behind in range(low, high):
                    if value < target.times[behind, cut, inside]:
                        target.times[behind, cut, inside] = value
                        target.chosen[behind, cut, inside] = option


@compiled
def _begin_priced(
    op: int, costs: ChainCosts, limits: StageLimits, prices: Floats, later: int, keys: Floats, paths: Floats
) -> None:
    paths[:, :, TIME] = np.inf
    for state in range(keys.shape[0]):
        option, again = state // 2, state % 2
        if costs.work[option, op] == np.inf or (again == 1 and costs.pinned[op]):
            continue
        held = (limits.per_weight + 1.0) * costs.weight[option, op] + (later + 1) * costs.enters[option, op]
        for slot in range(prices.shape[0]):
            _first(costs, op, option, again, paths[state, slot])
            keys[state, slot] = paths[state, slot, TIME] + prices[slot] * held


@compiled
def _step_priced(
    op: int, costs: ChainCosts, limits: StageLimits, prices: Floats, later: int, bounding: bool, keys: Floats,
    paths: Floats, out_keys: Floats, out_paths: Floats,
) -> None:  # fmt: skip
    """For every state and price the best predecessor by time and priced memory, then the path through it."""
    states, slots = keys.shape
    best, source_of = np.empty(slots), np.zeros(slots, np.int64)
    out_paths[:, :, TIME] = np.inf
    for state in range(states):
        option, again = state // 2, state % 2
        if costs.work[option, op] == np.inf or (again == 1 and costs.pinned[op]):
            continue
        best[:] = np.inf
        for source in range(states):
            before = source // 2
            moved = costs.move[op, before, option]
            if costs.work[before, op - 1] == np.inf or moved >= FORBIDDEN_US:
                continue
            both = again == 1 and source % 2 == 1
            grown = costs.activation[before, op - 1] - (costs.saved[before, op - 1] if both else 0.0)
            grown *= later + 1
            for slot in range(slots):
                key = keys[source, slot] + moved + prices[slot] * grown
                if key < best[slot]:
                    best[slot], source_of[slot] = key, source
        spent = costs.work[option, op] + again * costs.forward[option, op]
        held = (limits.per_weight + 1.0) * costs.weight[option, op]
        for slot in range(slots):
            if best[slot] == np.inf:
                continue
            out_keys[state, slot] = best[slot] + spent + prices[slot] * held
            if not bounding:
                source = source_of[slot]
                both = again == 1 and source % 2 == 1
                _extend(paths[source, slot], costs, op, source // 2, option, again, both, out_paths[state, slot])


@compiled
def _hopeless(keys: Floats, limits: StageLimits, prices: Floats) -> bool:
    """Whether no longer stage can keep the time limit: keys only grow with every operator."""
    for slot in range(prices.shape[0]):
        if np.min(keys[:, slot]) - prices[slot] * limits.memory_mb > limits.time_us:
            return True
    return False


@compiled
def _dual(
    op: int, costs: ChainCosts, limits: StageLimits, prices: Floats, later: int, keys: Floats, open_end: bool
) -> float:
    """What no stage that ends with ``op``, or that goes on behind it, can beat, by the best of all prices."""
    bound = -np.inf
    for slot in range(prices.shape[0]):
        least = np.inf
        for state in range(keys.shape[0]):
            option = state // 2
            end = costs.activation[option, op] * (later + 1) * prices[slot] + costs.sends[option, op]
            if open_end:
                end = 0.0
            least = min(least, keys[state, slot] + end)
        bound = max(bound, least - prices[slot] * limits.memory_mb)
    return bound
