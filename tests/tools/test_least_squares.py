"""Non-negative least squares: exact by the conditions of Karush, Kuhn and Tucker, whatever the columns look like."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from penstock.tools import nonnegative_least_squares

VALUES = st.floats(-10, 10).map(lambda value: round(value, 3))


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    count, width = draw(st.integers(1, 8)), draw(st.integers(1, 6))
    rows = draw(arrays.arrays(float, (count, width), elements=VALUES))
    return rows, draw(arrays.arrays(float, count, elements=VALUES))


def assert_optimal(rows: np.ndarray, targets: np.ndarray, found: np.ndarray) -> None:
    """No negative coefficient; no gradient that asks for more of a column; none at all where a column is in use."""
    assert found.shape == (rows.shape[1],)
    assert np.all(found >= 0)
    lengths = np.linalg.norm(rows, axis=0)
    gradient = rows.T @ (targets - rows @ found) / np.where(lengths > 0, lengths, 1.0)
    close = 1e-6 * max(1.0, float(np.linalg.norm(targets)))
    assert np.all(gradient <= close)
    assert np.all(np.abs(gradient[found > 0]) <= close)


@settings(max_examples=300, deadline=None)
@given(problems())
def test_meets_the_conditions_of_an_optimum(problem: tuple[np.ndarray, np.ndarray]) -> None:
    rows, targets = problem
    assert_optimal(rows, targets, nonnegative_least_squares(rows, targets))


@settings(max_examples=100, deadline=None)
@given(problems(), st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_columns_that_repeat_or_are_zero_do_no_harm(problem: tuple[np.ndarray, np.ndarray], again: list[int]) -> None:
    rows, targets = problem
    repeated = rows[:, [index % rows.shape[1] for index in again]]
    wider = np.column_stack([rows, 3 * repeated, np.zeros(len(rows)), -repeated])
    found = nonnegative_least_squares(wider, targets)
    assert_optimal(wider, targets, found)
    assert np.all(found[~wider.any(axis=0)] == 0)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_units_of_columns_do_not_matter(problem: tuple[np.ndarray, np.ndarray]) -> None:
    rows, targets = problem
    units = 10.0 ** np.arange(-12, 12, 4)[: rows.shape[1]]
    found = nonnegative_least_squares(rows * units, targets)
    assert_optimal(rows, targets, found * units)


def test_agrees_with_plain_least_squares_where_that_is_positive() -> None:
    rng = np.random.default_rng(3)
    rows, wanted = rng.normal(size=(40, 5)), np.array([0.5, 2.0, 1e-3, 7.0, 1.0])
    assert nonnegative_least_squares(rows, rows @ wanted) == pytest.approx(wanted, rel=1e-9)


def test_the_best_is_not_the_plain_solution_with_its_negatives_cut_off() -> None:
    rows = np.array([[1.0, 1.0], [1.0, 1.1]])
    assert np.linalg.lstsq(rows, np.array([1.0, 0.9]), rcond=None)[0] == pytest.approx([2.0, -1.0])
    assert nonnegative_least_squares(rows, np.array([1.0, 0.9])) == pytest.approx([0.95, 0.0])


def test_nothing_helps_against_targets_of_the_other_sign() -> None:
    assert not nonnegative_least_squares(np.ones((3, 2)), -np.ones(3)).any()
    assert nonnegative_least_squares(np.zeros((3, 2)), np.ones(3)).tolist() == [0.0, 0.0]
    assert nonnegative_least_squares(np.ones((2, 0)), np.ones(2)).shape == (0,)
