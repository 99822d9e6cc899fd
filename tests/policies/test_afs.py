"""AFS: contests between shorter and longer jobs."""

import pytest

from penstock.core import Curve
from penstock.policies.published.afs import Afs, beats
from tests.policies.views import Row, view

STEEP = Curve.from_table({1: 1.0, 2: 2.0, 4: 4.0})
FLAT = Curve.from_table({1: 1.0, 2: 1.2, 4: 1.3})


def test_among_equal_curves_the_shorter_job_gets_one_device_less_as_the_rule_says() -> None:
    assert Afs().allocate(view(Row(work=10.0), Row(work=1000.0), capacity=3)).widths.tolist() == [1, 2]
    assert Afs().allocate(view(Row(work=1000.0), Row(work=10.0), capacity=3)).widths.tolist() == [2, 1]


@pytest.mark.parametrize(("short", "widths"), [(STEEP, [2, 1]), (FLAT, [1, 2])])
def test_a_short_job_wins_against_a_flat_curve_and_loses_with_one(short: Curve, widths: list[int]) -> None:
    other = FLAT if short is STEEP else STEEP
    rows = Row(work=10.0, curve=short), Row(work=1000.0, curve=other)
    assert Afs().allocate(view(*rows, capacity=3)).widths.tolist() == widths


def test_the_contest_has_one_winner_whoever_is_asked_first() -> None:
    speed_ups = [(1.0 - 1.0 / faster, faster - 1.0) for faster in (1.1, 1.5, 1.9, 2.0)]
    for first in speed_ups:
        for second in speed_ups:
            assert beats(10.0, *first, 100.0, *second) != beats(100.0, *second, 10.0, *first)


def test_everybody_has_a_share_and_the_shortest_are_first_in_a_crowd() -> None:
    crowd = [Row(work=work) for work in (300.0, 100.0, 200.0)]
    assert Afs().allocate(view(*crowd, capacity=3)).widths.tolist() == [1, 1, 1]
    assert Afs().allocate(view(*crowd, capacity=2)).widths.tolist() == [0, 1, 1]


def test_nothing_is_left_idle_that_somebody_can_use() -> None:
    assert Afs().allocate(view(Row(curve=FLAT), Row(curve=STEEP), capacity=8)).widths.tolist() == [4, 4]
