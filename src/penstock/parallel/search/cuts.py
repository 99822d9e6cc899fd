"""Where to cut: the pipeline of least total time in which no stage takes longer than a bound.

A dynamic programme from the last stage to the first, because a stage's memory depends on how many stages come after
it. The state is (stages so far, devices so far, first operator); the devices are counted from the end of the mesh.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.tools import compiled

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CutStage:
    """Operators ``start`` to ``stop - 1`` on ``devices`` devices."""

    start: int
    stop: int
    devices: int


@compiled
def cheapest_pipeline(
    times: NDArray[np.float32], chosen: NDArray[np.int8], far_in: Floats, far_out: Floats, work_before: Floats,
    stage_devices: NDArray[np.int64], devices: int, per_node: int, bound: float,
) -> tuple[NDArray[np.int64], Floats]:  # fmt: skip
    """([[first cut, last cut, devices] per stage], their times) of the least total; empty if there is none.

    ``times[device choice, later stages, end cut, cuts inside]`` as a table of stages fills it;
    ``far_in`` and ``far_out`` [device choice, option, cut] what a transfer by network costs more than inside a node;
    ``work_before[cut]`` least device-time of everything before a cut. O(stages x devices x cuts x stage lengths),
    of which the bound leaves a small part.
    """
    _, most, cuts, longest = times.shape
    last = cuts - 1
    value = np.full((most, devices + 1, cuts), np.inf)
    taken = np.zeros((most, devices + 1, cuts), np.int8)
    span = np.zeros((most, devices + 1, cuts), np.int32)
    for later, used, choice, count in _places(most, stage_devices, devices, per_node):
        first = devices - used - count
        near_in = first == 0 or first % per_node != 0
        near_out = (first + count) % per_node != 0
        for stop in range(last, 0 if later else last - 1, -1):
            before = value[later - 1, used, stop] if later else 0.0
            if before == np.inf:
                continue
            for inside in range(min(longest, stop)):
                elapsed = float(times[choice, later, stop, inside])
                if elapsed > bound:
                    continue
                start = stop - 1 - inside
                option = chosen[choice, later, stop, inside]
                if not near_in:
                    elapsed += far_in[choice, option, start]
                if not near_out:
                    elapsed += far_out[choice, option, stop]
                if elapsed > bound or work_before[start] > first * bound:
                    continue
                if before + elapsed < value[later, used + count, start]:
                    value[later, used + count, start] = before + elapsed
                    taken[later, used + count, start] = choice
                    span[later, used + count, start] = inside
    return _traced(value, taken, span, stage_devices)


@compiled
def least_total(
    times: NDArray[np.float32], stage_devices: NDArray[np.int64], devices: int, per_node: int, bound: float
) -> float:
    """Least total of pipelines that may cut anywhere, from times of parts of stages between a few cuts.

    A stage that begins and ends between two of the cuts is charged for the cuts' whole intervals inside of it. So the
    interval in which two stages meet is charged to neither, and a stage inside of one interval costs nothing.
    Infinite if some stage must take longer than ``bound``.
    """
    _, most, cuts, longest = times.shape
    last = cuts - 1
    value = np.full((most, devices + 1, cuts), np.inf)
    for later, used, choice, count in _places(most, stage_devices, devices, per_node):
        for stop in range(last, -1 if later else last - 1, -1):
            before = value[later - 1, used, stop] if later else 0.0
            if later and stop < last:
                before = min(before, value[later - 1, used, stop + 1])
            if before == np.inf:
                continue
            value[later, used + count, stop] = min(value[later, used + count, stop], before)
            for inside in range(min(longest, stop)):
                elapsed = float(times[choice, later, stop, inside])
                if elapsed <= bound:
                    start = stop - 1 - inside
                    value[later, used + count, start] = min(value[later, used + count, start], before + elapsed)
    best = np.inf
    for later in range(most):
        best = min(best, value[later, devices, 0])
    return float(best)


@compiled
def _places(most: int, stage_devices: NDArray[np.int64], devices: int, per_node: int) -> NDArray[np.int64]:
    """Where a stage may lie: [stages behind it, devices they use, choice, its devices] per row, the last stages first.

    Its devices must exist and lie in one node; the very last stage has none behind it.
    """
    rows = np.empty((most * devices * len(stage_devices), 4), np.int64)
    count = 0
    for later in range(most):
        for used in range(devices if later else 1):
            for choice in range(len(stage_devices)):
                first = devices - used - stage_devices[choice]
                if first >= 0 and first % per_node + stage_devices[choice] <= per_node:
                    rows[count, 0], rows[count, 1], rows[count, 2] = later, used, choice
                    rows[count, 3] = stage_devices[choice]
                    count += 1
    return rows[:count]


@compiled
def _traced(
    value: Floats, taken: NDArray[np.int8], span: NDArray[np.int32], stage_devices: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Floats]:
    """The stages of the cheapest pipeline over all operators and devices, first to last."""
    most, devices = value.shape[0], value.shape[1] - 1
    stages, best = 0, np.inf
    for later in range(most):
        if value[later, devices, 0] < best:
            best, stages = value[later, devices, 0], later + 1
    path, times = np.zeros((stages, 3), np.int64), np.zeros(stages)
    start, used = 0, devices
    for number in range(stages):
        later = stages - 1 - number
        count = stage_devices[taken[later, used, start]]
        stop = start + 1 + span[later, used, start]
        path[number, 0], path[number, 1], path[number, 2] = start, stop, count
        times[number] = value[later, used, start]
        if later > 0:
            times[number] -= value[later - 1, used - count, stop]
        start, used = stop, used - count
    return path, times
