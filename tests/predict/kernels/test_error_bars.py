"""Error bars hold what they promise on made-up residuals, and widen where nothing was measured."""

import numpy as np
import pytest

from penstock.predict.kernels.error_bars import ErrorBars
from penstock.predict.lab.fitting.error_bar_fitting import fit_error_bars, thinned, widest_error_bars

RNG = np.random.default_rng(5)


def shapes(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, 10, (count, 3))


def folds(count: int) -> np.ndarray:
    return (np.arange(count) % 4).astype(float)


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.5])
def test_nine_of_ten_new_residuals_lie_inside(noise: float) -> None:
    known = shapes(4000)
    bars = fit_error_bars(known, RNG.normal(0, noise, len(known)), folds(len(known)))
    fresh = shapes(4000, seed=2)
    inside = np.abs(RNG.normal(0, noise, len(fresh))) <= bars.width(bars.distance(fresh))
    assert 0.87 <= inside.mean() <= 0.95


def test_bars_follow_residuals_that_grow_with_the_distance() -> None:
    known = np.concatenate([RNG.uniform(0, 1, (3000, 2)), RNG.uniform(5, 25, (300, 2))])
    noise = np.where(known[:, 0] < 2, 0.02, 0.4)
    bars = fit_error_bars(known, RNG.normal(0, 1, len(known)) * noise, folds(len(known)))
    near, far = bars.width(np.array([0.0, float(bars.distances[-1])]))
    assert near < 0.06
    assert far > 0.2
    assert np.all(np.diff(bars.widths) >= 0), "never narrower farther away"


def test_beyond_the_farthest_tested_shape_bars_grow_by_a_quarter_per_octave() -> None:
    bars = ErrorBars(references=np.zeros((1, 2)), distances=np.array([0.0, 1.0]), widths=np.array([0.1, 0.2]))
    assert bars.width(np.array([0.0, 0.5, 1.0, 3.0])) == pytest.approx([0.1, 0.15, 0.2, 0.2 * 1.5])


def test_in_range_is_near_a_measured_shape_and_inside_of_every_column() -> None:
    bars = ErrorBars(
        references=np.array([[0.0, 0.0], [4.0, 4.0]]), distances=np.array([0.0, 2.0]), widths=np.array([0.1, 0.2])
    )
    asked = np.array([[0.2, 0.1], [2.0, 2.0], [4.4, 4.0], [4.6, 4.0], [0.0, 4.0]])
    assert bars.covers(asked, bars.distance(asked)).tolist() == [True, True, True, False, False]


def test_few_rows_get_twice_their_largest_miss() -> None:
    bars = widest_error_bars(np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([-0.3, 0.1]))
    assert bars.width(np.array([0.0])) == pytest.approx([0.6])
    assert len(bars.references) == 1


def test_thinning_keeps_the_extremes() -> None:
    known = shapes(6000)
    kept = thinned(known)
    assert len(kept) <= 1500 + 2 * known.shape[1]
    assert np.array_equal(kept.min(axis=0), known.min(axis=0))
    assert np.array_equal(kept.max(axis=0), known.max(axis=0))
