"""Iterations per second against devices: interpolated inside, flat beyond, impossible below, clipped where it falls."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import Curve, CurveError, Scaling, Source

RISING = Curve.from_table({2: 10.0, 4: 18.0, 8: 30.0})
FALLING = Curve.from_table({1: 10.0, 2: 18.0, 4: 30.0, 8: 29.0, 16: 12.0})
TWO_KINDS = Curve(
    (
        ("A100", Scaling(counts=(1, 2), rates=(10.0, 18.0))),
        ("T4", Scaling(counts=(1, 2, 4), rates=(3.0, 5.0, 8.0), source=Source.PREDICTED)),
    )
)


def tables(most: float = 1e3) -> st.SearchStrategy[dict[int, float]]:
    return st.dictionaries(st.integers(1, 64), st.floats(0.1, most), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("count", "rate"),
    [(1, 0.0), (2, 10.0), (3, 14.0), (4, 18.0), (5, 21.0), (7, 27.0), (8, 30.0), (9, 30.0), (500, 30.0)],
)
def test_rates_are_interpolated_flat_beyond_and_zero_below(count: int, rate: float) -> None:
    assert RISING.rate(count) == pytest.approx(rate)


def test_levels_stop_where_throughput_stops_growing() -> None:
    assert FALLING.levels() == ((1, 10.0), (2, 18.0), (4, 30.0))
    assert FALLING.rate(8) == 29.0, "the measurement itself stays visible"


def test_a_dip_is_left_out_but_what_rises_above_it_counts() -> None:
    assert Curve.from_table({1: 10.0, 2: 8.0, 4: 12.0}).levels() == ((1, 10.0), (4, 12.0))


@pytest.mark.parametrize(
    ("at_least", "at_most", "counts"),
    [
        (1, None, [1, 2, 4]),
        (1, 3, [1, 2]),
        (2, 8, [2, 4]),
        (3, None, [3, 4]),
        (3, 3, [3]),
        (8, 16, [8]),
        (6, 2, []),
    ],
)
def test_bounds_narrow_the_levels(at_least: int, at_most: int | None, counts: list[int]) -> None:
    assert [count for count, _ in FALLING.levels(at_least=at_least, at_most=at_most)] == counts


def test_a_lower_bound_between_two_counts_is_a_level_at_the_interpolated_rate() -> None:
    assert FALLING.levels(at_least=3)[0] == (3, 24.0)


def test_bounds_below_the_first_count_do_not_make_the_job_runnable_there() -> None:
    assert RISING.levels(at_least=1, at_most=1) == ()
    assert RISING.levels(at_least=1, at_most=2) == ((2, 10.0),)


def test_every_kind_has_its_own_table() -> None:
    assert TWO_KINDS.kinds == ("A100", "T4")
    assert (TWO_KINDS.rate(2, "A100"), TWO_KINDS.rate(2, "T4"), TWO_KINDS.rate(2, "V100")) == (18.0, 5.0, 0.0)
    assert TWO_KINDS.levels("T4", at_most=2) == ((1, 3.0), (2, 5.0))
    assert TWO_KINDS.levels("V100") == ()
    assert TWO_KINDS.scaling("T4") == Scaling(counts=(1, 2, 4), rates=(3.0, 5.0, 8.0), source=Source.PREDICTED)


def test_a_curve_without_a_kind_holds_on_every_kind() -> None:
    assert RISING.rate(4, "A100") == RISING.rate(4, "T4") == 18.0


def test_a_wider_spread_has_the_rate_measured_for_it() -> None:
    curve = Curve((("A100", Scaling(counts=(1, 8), rates=(10.0, 70.0), spread=((8, 2, 60.0), (8, 4, 40.0)))),))
    assert [curve.rate(8, "A100", nodes) for nodes in (None, 1, 2, 3, 4)] == [70.0, 70.0, 60.0, 70.0, 40.0]
    assert curve.levels("A100") == ((1, 10.0), (8, 70.0)), "levels count on compact placement"


def test_cells_that_cannot_run_are_left_out() -> None:
    curve = Curve.from_table({1: 0.0, 2: math.nan, 8: 30.0, 4: 18.0})
    assert curve.scaling() == Scaling(counts=(4, 8), rates=(18.0, 30.0))
    assert curve.rate(2) == 0.0


@pytest.mark.parametrize("table", [{}, {1: 0.0}, {1: math.nan, 2: 0.0}])
def test_a_table_without_a_runnable_count_is_refused(table: dict[int, float]) -> None:
    with pytest.raises(CurveError) as caught:
        Curve.from_table(table)
    assert (
        str(caught.value) == "a throughput table without a single runnable count. Allowed: at least one positive rate."
    )


@pytest.mark.parametrize(
    ("counts", "rates", "message"),
    [
        ((), (), "one rate per count"),
        ((1, 2), (1.0,), "one rate per count"),
        ((2, 1), (1.0, 2.0), r"\(2, 1\).*positive and increasing"),
        ((1, 1), (1.0, 2.0), "positive and increasing"),
        ((0, 1), (1.0, 2.0), "positive and increasing"),
        ((1, 2), (1.0, -2.0), "positive and finite.*Leave out counts that cannot run"),
        ((1,), (0.0,), "positive and finite"),
        ((1,), (math.inf,), "positive and finite"),
        ((1,), (math.nan,), "positive and finite"),
    ],
)
def test_tables_that_say_nothing_are_refused(counts: tuple[int, ...], rates: tuple[float, ...], message: str) -> None:
    with pytest.raises(CurveError, match=message):
        Scaling(counts=counts, rates=rates)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan])
def test_a_spread_at_which_a_job_would_stand_still_is_refused(rate: float) -> None:
    with pytest.raises(CurveError, match="positive and finite"):
        Scaling(counts=(1, 8), rates=(1.0, 6.0), spread=((8, 2, rate),))


def test_a_curve_needs_a_kind() -> None:
    with pytest.raises(CurveError, match=r"a curve without any kind of device\. Allowed: at least one\."):
        Curve(())


@given(tables())
def test_measured_counts_are_read_back(table: dict[int, float]) -> None:
    curve = Curve.from_table(table)
    assert {count: curve.rate(count) for count in table} == table


@given(tables(), st.integers(1, 80))
def test_no_rate_lies_outside_its_neighbours(table: dict[int, float], count: int) -> None:
    rate = Curve.from_table(table).rate(count)
    below = [table[c] for c in sorted(table) if c <= count][-1:]
    above = [table[c] for c in sorted(table) if c >= count][:1] if below else []
    around = below + above or [0.0]
    assert min(around) * (1 - 1e-12) <= rate <= max(around) * (1 + 1e-12)


@given(tables(), st.integers(1, 20), st.one_of(st.none(), st.integers(1, 80)))
def test_levels_grow_stay_inside_the_bounds_and_are_true(table: dict[int, float], low: int, high: int | None) -> None:
    curve = Curve.from_table(table)
    levels = curve.levels(at_least=low, at_most=high)
    assert list(levels) == sorted(levels)
    assert all(slow[1] < fast[1] for slow, fast in pairwise(levels))
    assert all(low <= count <= (high or 80) and curve.rate(count) == rate for count, rate in levels)
    best = max((r for c, r in table.items() if low <= c <= (high or 80)), default=0.0)
    assert max((rate for _, rate in levels), default=0.0) >= best


def test_between_two_counts_of_a_predicted_curve_only_the_rate_of_the_smaller_is_certain() -> None:
    scaling = Scaling(
        counts=(1, 2, 4), rates=(2.0, 3.6, 6.4), source=Source.PREDICTED, doubts=(0.0, 0.45, 0.7), measured=(1,)
    )
    curve = Curve((("cpu", scaling),))
    assert [curve.doubt(count, "cpu") for count in (1, 2, 4)] == [0.0, 0.45, 0.7]
    assert curve.rate(3, "cpu") * (1 - curve.doubt(3, "cpu")) == pytest.approx(3.6 * 0.55)
    assert [scaling.is_measured(count) for count in (1, 2, 3)] == [True, False, False]
    assert Scaling(counts=(1, 2), rates=(2.0, 3.6)).is_measured(2)
