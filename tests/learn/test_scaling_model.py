"""Curves between and beyond what was measured."""

import math
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.core import CurveError, InputError
from penstock.learn import Estimate, Point, ScalingModel, profiling_plan


def at(count: int, rate: float, spread: float = 0.0, seconds: float = 60.0) -> Point:
    return Point(count=count, rate=rate, spread=spread, seconds=seconds, updated_at=0.0)


def exact(compute: float, fixed: float, exchange: float, counts: list[int]) -> list[Point]:
    model = ScalingModel(compute, fixed, exchange)
    return [at(count, model.rate(count)) for count in counts]


@pytest.mark.parametrize(
    ("compute", "fixed", "exchange"), [(1.0, 0.0, 0.0), (0.3, 0.02, 0.004), (2.0, 0.5, 0.0), (0.1, 0.0, 0.05)]
)
def test_three_counts_foretell_the_others(compute: float, fixed: float, exchange: float) -> None:
    truth = ScalingModel(compute, fixed, exchange)
    estimate = Estimate.of(exact(compute, fixed, exchange, [1, 2, 32]))

    for count in (3, 4, 8, 16):
        assert estimate.rate(count) == pytest.approx(truth.rate(count), rel=0.06)


def test_many_counts_leave_nothing_to_the_prior() -> None:
    truth = ScalingModel(0.3, 0.01, 0.01)
    fitted = ScalingModel.fit(exact(0.3, 0.01, 0.01, [1, 2, 4, 8, 16, 32, 64]))

    assert fitted.rate(128) == pytest.approx(truth.rate(128), rel=0.02)


def test_one_count_foretells_less_than_linear_growth() -> None:
    for measured in (1, 4):
        estimate = Estimate.of([at(measured, 10.0)])
        rates = [estimate.rate(count) for count in (1, 2, 4, 8)]

        assert estimate.rate(measured) == pytest.approx(10.0)
        assert rates == sorted(rates)
        assert all(later < 2 * earlier for earlier, later in pairwise(rates))


def test_growth_better_than_linear_is_believed_where_measured_only() -> None:
    estimate = Estimate.of([at(1, 10.0), at(2, 23.0)])

    assert estimate.rate(2) == pytest.approx(23.0)
    assert estimate.rate(4) <= 46.0 * (1 + 1e-9)


def test_a_shaky_point_bends_the_model_less() -> None:
    straight = [at(1, 10.0), at(2, 20.0), at(8, 80.0)]
    steady = ScalingModel.fit([*straight, at(4, 20.0)])
    shaky = ScalingModel.fit([*straight, at(4, 20.0, spread=20.0, seconds=1.0)])

    assert shaky.rate(4) > steady.rate(4)


POINTS = st.dictionaries(st.integers(1, 512), st.floats(1e-4, 1e5), min_size=1, max_size=8)


@settings(max_examples=300)
@example(rates={2: 2.0, 3: 1.0}, count=1)
@given(rates=POINTS, count=st.integers(1, 2048))
def test_every_measurement_gives_a_usable_curve(rates: dict[int, float], count: int) -> None:
    estimate = Estimate.of([at(n, rate) for n, rate in rates.items()])

    assert math.isfinite(estimate.rate(count))
    assert estimate.rate(count) > 0
    assert 0 < estimate.uncertainty(count) < 1
    for measured, rate in rates.items():
        assert estimate.rate(measured) == pytest.approx(rate, rel=1e-6)
    model = estimate.model
    assert model.compute_s > 0
    assert min(model.fixed_s, model.exchange_s) >= 0


def certain(estimate: Estimate, count: int) -> float:
    return estimate.rate(count) * (1 - estimate.uncertainty(count))


@pytest.mark.parametrize("count", [2, 4, 64])
def test_more_devices_than_measured_are_certain_to_be_no_slower_only(count: int) -> None:
    """With a fixed batch per device, steps a second never grow with the number of devices."""
    estimate = Estimate.of([at(1, 2.0, seconds=20.0)])
    assert estimate.rate(count) > 3.0
    assert 2.0 * 0.83 < certain(estimate, count) < 2.0


def test_counts_measured_around_one_narrow_its_doubt() -> None:
    both = Estimate.of([at(1, 10.0, seconds=1e6), at(8, 64.0, seconds=1e6)])
    assert certain(both, 4) == pytest.approx(32.0, rel=0.01), "its share of what eight make"
    assert certain(both, 16) == pytest.approx(64.0, rel=0.03), "as many as eight make"
    falling = Estimate.of([at(1, 10.0, seconds=1e6), at(4, 8.0, seconds=1e6)])
    assert certain(falling, 2) == pytest.approx(8.0, rel=0.01), "no slower than the slower of the two"
    assert certain(Estimate.of([at(4, 40.0, seconds=1e6)]), 1) == pytest.approx(10.0, rel=0.01)


class Predicted:
    """A shape that was predicted from a model."""

    def rate(self, count: int) -> float:
        return float(count**0.9)


def test_a_predicted_shape_narrows_the_doubt() -> None:
    shaped = Estimate.of([at(1, 2.0)], Predicted())
    assert shaped.uncertainty(2) < 0.15 < 0.4 < Estimate.of([at(1, 2.0)]).uncertainty(2)


@given(POINTS, st.floats(1e-3, 1e3))
def test_the_unit_of_time_does_not_matter(rates: dict[int, float], factor: float) -> None:
    once = Estimate.of([at(n, rate) for n, rate in rates.items()])
    scaled = Estimate.of([at(n, rate * factor) for n, rate in rates.items()])

    assert scaled.rate(24) == pytest.approx(once.rate(24) * factor, rel=1e-3)


def test_nothing_measured_fits_nothing() -> None:
    with pytest.raises(CurveError, match="no measured rate"):
        ScalingModel.fit([])


@pytest.mark.parametrize(
    ("most", "known", "least", "free", "plan"),
    [
        (8, (), 1, None, (1, 2, 8)),
        (6, (), 1, None, (1, 2, 4)),
        (64, (1, 64), 1, None, (2,)),
        (8, (), 1, 5, (1, 2, 4)),
        (8, (), 1, 1, (1,)),
        (8, (), 1, 0, ()),
        (8, (), 4, 3, ()),
        (16, (), 3, None, (3, 6, 16)),
        (5, (), 3, None, (3, 4, 5)),
        (3, (), 3, None, (3,)),
        (1, (), 1, None, (1,)),
        (2, (1, 2), 1, None, ()),
    ],
)
def test_few_counts_are_profiled(
    most: int, known: tuple[int, ...], least: int, free: int | None, plan: tuple[int, ...]
) -> None:
    assert profiling_plan(most, known, min_devices=least, free=free) == plan


def test_bounds_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(InputError, match="profiling on 3 to 2 devices"):
        profiling_plan(2, min_devices=3)
