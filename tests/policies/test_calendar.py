"""How long a plan takes on what is free, and how late it may begin: by hand, on profiles of few steps."""

import math

import numpy as np
import pytest

from penstock.policies.deadline.calendar import UNREACHABLE, finish_time, later_start, smallest_share

LEVELS, RATES, NO_PAUSE = np.array([1, 2, 4]), np.array([1.0, 2.0, 4.0]), np.zeros(3)
LEFT = 40.0
"""Iterations: forty seconds on one device, ten on four."""
Steps = list[tuple[float, int]]


def profile(steps: Steps) -> tuple[np.ndarray, np.ndarray, int]:
    """So many devices are free from each time on."""
    times, free = np.zeros(8), np.zeros(8, dtype=np.int64)
    for k, (at, devices) in enumerate(steps):
        times[k], free[k] = at, devices
    return times, free, len(steps)


@pytest.mark.parametrize(
    ("steps", "slot", "end"),
    [
        ([(0.0, 4)], 0.0, 10.0),
        ([(0.0, 4), (5.0, 2)], 0.0, 15.0),  # half of it is done when two devices go
        ([(0.0, 2), (10.0, 4)], 0.0, 15.0),
        ([(0.0, 2), (10.0, 4)], 5.0, 17.5),  # more devices count from a slot later on
        ([(0.0, 2), (10.0, 0), (20.0, 1)], 0.0, 40.0),
        ([(0.0, 0)], 0.0, math.inf),
    ],
)
def test_every_stretch_of_a_plan_counts(steps: Steps, slot: float, end: float) -> None:
    def finish(limit: float) -> float:
        return float(finish_time(*profile(steps), LEVELS, RATES, NO_PAUSE, 0.0, 3, 2, 0, 0.0, LEFT, -1.0, limit, slot))

    assert finish(math.inf) == end
    if end < math.inf:
        assert (finish(end), finish(end - 0.1)) == (end, math.inf), "just in time is in time"


@pytest.mark.parametrize(
    ("steps", "slot", "limit", "found"),
    [
        ([(0.0, 4)], 10.0, 100.0, (80.0, 100.0)),  # a slot later than planned, and ten seconds of work
        ([(15.0, 4)], 10.0, 100.0, (80.0, 100.0)),  # whole slots, not slots from now on
        ([(15.0, 4)], 0.0, 100.0, (89.0, 99.0)),  # without slots in steps of a second; the next one is too close
        ([(0.0, 4), (50.0, 0)], 10.0, 100.0, (30.0, 50.0)),
        ([(0.0, 4)], 10.0, 20.0, (0.0, math.inf)),
        ([(3.0, 4)], 10.0, 30.0, (10.0, 30.0)),
        ([(3.0, 4)], 10.0, 29.0, (3.0, math.inf)),
        ([(0.0, 4)], 10.0, 9.0, (0.0, math.inf)),
        ([(0.0, 4)], 10.0, math.inf, (0.0, math.inf)),  # without a limit no start is the latest
    ],
)
def test_the_latest_start_that_is_in_time(steps: Steps, slot: float, limit: float, found: tuple[float, float]) -> None:
    arguments = (*profile(steps), LEVELS, RATES, NO_PAUSE, 0.0, 3, 2, 0, 0.0, LEFT, -1.0, limit, slot)
    assert later_start(*arguments) == getattr(later_start, "py_func", later_start)(*arguments) == found


@pytest.mark.parametrize(
    ("limit", "found"),
    [(40.0, (0, 40.0)), (39.9, (1, 20.0)), (20.0, (1, 20.0)), (19.9, (2, 10.0)), (10.0, (2, 10.0)),
     (9.9, (UNREACHABLE, math.inf))],
)  # fmt: skip
def test_the_smallest_share_that_is_in_time(limit: float, found: tuple[int, float]) -> None:
    share = smallest_share(*profile([(0.0, 4)]), LEVELS, RATES, NO_PAUSE, 0.0, 3, 0, 0.0, LEFT, -1.0, limit, 0.0)
    assert share == found
