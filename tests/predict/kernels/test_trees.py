"""Trees as arrays give what the library that grew them gives, compiled or not."""

import numpy as np
import pytest

from penstock.predict.kernels.error_bars import _in_chunks, _one_by_one, nearest
from penstock.predict.kernels.trees import Forest, _descend, _descend_together
from penstock.predict.lab.fitting.boosting import BoostingOptions, BoostingTarget, boosted_forest


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 5))
    return rows, np.sin(rows[:, 0]) + rows[:, 1] * (rows[:, 2] > 0)


@pytest.mark.parametrize("aim", list(BoostingTarget))
def test_arrays_equal_the_library(data: tuple[np.ndarray, np.ndarray], aim: BoostingTarget) -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    rows, targets = data
    options, inverse = BoostingOptions(trees=20), np.exp(-targets)
    asked = inverse if aim is BoostingTarget.USUAL else 1 / inverse
    weights = inverse / inverse.mean() if aim is BoostingTarget.USUAL else np.ones(len(rows))
    booster = HistGradientBoostingRegressor(
        loss="gamma", max_iter=20, learning_rate=options.rate, max_leaf_nodes=options.leaves,
        min_samples_leaf=options.fewest_rows, l2_regularization=options.shrinkage, max_features=options.columns,
        early_stopping=False, random_state=3,
    ).fit(rows, asked, sample_weight=weights)  # fmt: skip
    forest = boosted_forest(rows, targets, np.ones(len(rows)), options, 3, aim)

    fresh = np.random.default_rng(1).normal(size=(200, 5))
    truth = booster.predict(fresh)
    expected = -np.log(truth) if aim is BoostingTarget.USUAL else np.log(truth)
    off = np.abs(forest.predict(fresh) - expected)
    assert np.median(off) < 1e-3  # stored numbers are rounded,
    assert np.mean(off > 1e-2) < 0.03  # which sends a row in a hundred another way


def test_where_nothing_tells_rows_apart_each_aim_has_its_own_answer() -> None:
    times = np.where(np.arange(4000) % 4 == 0, 3.0, 1.0)
    nothing, alike = np.zeros((len(times), 1)), np.ones(len(times))
    usual, mean = (
        np.exp(boosted_forest(nothing, np.log(times), alike, BoostingOptions(trees=5), 0, aim).predict(nothing[:1])[0])
        for aim in BoostingTarget
    )
    assert mean == pytest.approx(times.mean(), rel=0.01)
    assert usual == pytest.approx((1 / times).mean() / (1 / times**2).mean(), rel=0.01)
    guesses = np.linspace(0.8, 2.0, 200)
    best = guesses[np.argmin([np.mean((guess / times - 1) ** 2) for guess in guesses])]
    assert usual == pytest.approx(best, rel=0.01)


def test_all_ways_down_the_trees_agree(data: tuple[np.ndarray, np.ndarray]) -> None:
    rows, targets = data
    forest = boosted_forest(rows, targets, np.ones(len(rows)), BoostingOptions(trees=15), 0)
    columns = (forest.feature, forest.number, forest.right, forest.roots)

    together = forest.base + _descend_together(rows, *columns)
    assert np.allclose(forest.predict(rows), together)
    assert np.allclose(forest.predict(rows[:20]), forest.base + _descend(rows[:20], *columns))


def test_a_forest_of_one_leaf_is_a_constant() -> None:
    none = np.zeros(1, dtype=np.int32)
    forest = Forest(
        feature=none.astype(np.int16),
        number=np.full(1, 2.0, dtype=np.float32),
        right=none,
        roots=none,
        base=1.0,
    )

    assert list(forest.predict(np.zeros((3, 2)))) == [3.0, 3.0, 3.0]


def test_the_nearest_shape_is_found_compiled_or_not() -> None:
    rng = np.random.default_rng(2)
    shapes, references = rng.normal(size=(70, 4)), rng.normal(size=(300, 4))
    truth = np.sqrt(((shapes[:, None] - references) ** 2).sum(axis=2)).min(axis=1)

    for search in (_one_by_one, _in_chunks):
        assert np.allclose(np.sqrt(search(shapes, references)), truth)
    assert np.allclose(nearest(shapes, references), truth)
