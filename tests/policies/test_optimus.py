"""Optimus: devices go where they shorten the remaining time most, in rounds."""

import numpy as np
import pytest

from penstock.core import Curve, JobFinished, JobSubmitted, Tick
from penstock.policies.greedy import grow_by_gain
from penstock.policies.published.optimus import Optimus, marginal_gains
from tests.policies.views import Row, view
from tests.scheduler.build import job, scheduler

FLAT = Curve.from_table({1: 1.0, 2: 1.1, 4: 1.2})
STEEP = Curve.from_table({1: 1.0, 2: 2.0, 4: 4.0})


def test_the_gain_is_time_saved_per_device_added() -> None:
    assert marginal_gains(view(Row(work=120.0, curve=STEEP))).tolist() == [[60.0, 15.0]]


def test_devices_go_where_they_shorten_the_remaining_time_most() -> None:
    assert Optimus().allocate(view(Row(curve=FLAT), Row(curve=STEEP), capacity=3)).widths.tolist() == [1, 2]
    long, short = Row(work=1000.0, curve=STEEP), Row(work=10.0, curve=STEEP)
    assert Optimus().allocate(view(short, long, capacity=5)).widths.tolist() == [1, 4]


def test_everybody_has_a_first_share_before_anybody_grows() -> None:
    assert Optimus().allocate(view(Row(work=1e6), *(Row() for _ in range(3)))).widths.tolist() == [1, 1, 1, 1]


def test_in_a_crowd_those_with_the_least_time_left_are_started() -> None:
    crowd = [Row(work=work) for work in (300.0, 100.0, 200.0)]
    assert Optimus().allocate(view(*crowd, capacity=2)).widths.tolist() == [0, 1, 1]


def test_within_a_round_nobody_is_resized_and_newcomers_take_what_is_idle() -> None:
    machine = scheduler("1x4", "optimus")
    machine.handle(JobSubmitted(0.0, job("a", 4000.0)), JobSubmitted(0.0, job("b", 200.0, at_most=1)))
    assert [len(machine.devices_of(name)) for name in "ab"] == [2, 1]
    machine.handle(JobFinished(200.0, "b"))
    machine.handle(JobSubmitted(210.0, job("c", 1e6, submitted_at=210.0, at_most=1)))
    assert [len(machine.devices_of(name)) for name in "ac"] == [2, 1], "the round goes on"
    machine.handle(JobFinished(300.0, "c"), Tick(600.0))
    assert len(machine.devices_of("a")) == 4, "the next round gives it all"


def test_growth_never_exceeds_what_is_idle_and_ends_where_nothing_is_gained() -> None:
    widths = np.array([1, 1, 0])
    levels, depth = np.array([[1, 2, 4]] * 3), np.array([3, 3, 3])
    grow_by_gain(widths, np.arange(3), np.array([[5.0, 9.0], [6.0, 0.0], [99.0, 99.0]]), levels, depth, 8)
    assert widths.tolist() == [4, 2, 0], "who holds nothing is not started, who gains nothing does not grow"


@pytest.mark.parametrize("capacity", [3, 4, 5])
def test_a_level_that_does_not_fit_leaves_devices_for_a_smaller_one(capacity: int) -> None:
    wide, narrow = Row(work=1e4, curve=Curve.from_table({1: 1.0, 4: 4.0})), Row(curve=STEEP)
    expected = {3: [1, 2], 4: [1, 2], 5: [4, 1]}[capacity]
    assert Optimus().allocate(view(wide, narrow, capacity=capacity)).widths.tolist() == expected
