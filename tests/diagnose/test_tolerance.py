"""What is allowed: rounding, and no more than that."""

import math

import numpy as np
import pytest

from penstock.diagnose.operators.tolerance import ROUNDINGS, TF32, excess

SINGLE = ROUNDINGS["float32"]


@pytest.mark.parametrize("dtype", ROUNDINGS)
def test_one_rounding_is_allowed_and_a_hundred_are_not(dtype: str) -> None:
    rounding, values = ROUNDINGS[dtype], np.linspace(1.0, 2.0, 50)
    assert excess(values * (1 + rounding.stored), values, rounding) < 1
    assert excess(values * (1 + 100 * max(rounding.stored, rounding.summed)), values, rounding) > 1


def test_long_sums_and_coarse_products_are_allowed_more() -> None:
    values = np.ones(9)
    off = values * (1 + 3e-6)
    assert excess(off, values, SINGLE) > 1 > excess(off, values, SINGLE, length=1000)
    assert excess(off, values, SINGLE.through(TF32)) < 1


def test_what_cancels_is_allowed_what_its_inputs_rounding_does() -> None:
    nearly_nothing = np.array([1e-9])
    assert excess(nearly_nothing + 1e-7, nearly_nothing, SINGLE) > 1
    assert excess(nearly_nothing + 1e-7, nearly_nothing, SINGLE, spread=1e-7) < 1


@pytest.mark.parametrize(
    ("got", "wanted"),
    [([math.nan], [1.0]), ([1.0], [math.nan]), ([math.inf], [1.0]), ([math.inf], [-math.inf]), ([1.0, 2.0], [1.0])],
)
def test_what_is_not_a_number_or_of_another_shape_is_infinitely_wrong(got: list[float], wanted: list[float]) -> None:
    assert excess(np.array(got), np.array(wanted), SINGLE) == math.inf


def test_infinities_and_not_a_numbers_that_agree_are_right() -> None:
    same = np.array([math.nan, math.inf, -math.inf, 1.0])
    assert excess(same, same, SINGLE) == 0
    assert excess(np.zeros(0), np.zeros(0), SINGLE) == 0


def test_beside_the_largest_number_overflow_is_right_too() -> None:
    half = ROUNDINGS["float16"]
    assert excess(np.array([math.inf]), np.array([70000.0]), half) == 0
    assert excess(np.array([math.inf]), np.array([60000.0]), half) == math.inf
    assert excess(np.array([-math.inf]), np.array([70000.0]), half) == math.inf
