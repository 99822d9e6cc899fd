"""Lucid-like: least device-time first, never interrupted, and it can say why."""

import pytest

from penstock.core import Curve
from penstock.policies import policy_named
from penstock.policies.published.lucid import Lucid, device_time_class
from tests.policies.views import Row, view

POOR = Curve.from_table({1: 1.0, 2: 1.2, 4: 1.4})
FAIR = Curve.from_table({1: 1.0, 2: 1.5, 4: 2.4})


def test_least_device_time_first() -> None:
    small, wide = Row(work=400.0, requested=1), Row(work=1600.0, requested=4)
    assert Lucid().allocate(view(wide, small)).widths.tolist() == [0, 1]


def test_nobody_is_interrupted_for_a_shorter_job() -> None:
    runs = Row(work=1e6, requested=4, width=4)
    assert Lucid().allocate(view(runs, Row(work=1.0))).widths.tolist() == [4, 0]


@pytest.mark.parametrize(("curve", "score"), [(POOR, 0), (FAIR, 1), (None, 2)])
def test_the_sharing_score_is_what_a_job_makes_of_its_devices(curve: Curve | None, score: int) -> None:
    row = Row(requested=4) if curve is None else Row(requested=4, curve=curve)
    assert Lucid().sharing_scores(view(row)).tolist() == [score]
    assert policy_named("lucid:tiny=0,jumbo=0").sharing_scores(view(row)).tolist() == [2]  # type: ignore[union-attr]


def test_estimates_within_a_factor_of_two_are_equal_and_the_score_decides() -> None:
    jumbo, tiny = Row(work=1200.0, requested=4), Row(work=1.4 * 500.0, requested=4, curve=POOR)
    world = view(jumbo, tiny)
    assert device_time_class(world).tolist() == [10, 10]
    assert Lucid().allocate(world).widths.tolist() == [0, 4]


def test_it_says_why_a_job_waits() -> None:
    world = view(Row(width=4, requested=4), Row(work=60.0), Row(work=7200.0, requested=2))
    told = Lucid().explain(world, 2)
    assert told == "waits with 1 ahead of it: 2 devices for about 1h, sharing score jumbo"
    assert Lucid().explain(world, 0) == "holds 4 devices until it ends; nobody is interrupted"
