"""Trees as arrays give what the library that grew them gives, compiled or not."""

import numpy as np
import pytest

from penstock.estimate.kernels.growing import Growth, grow
from penstock.estimate.kernels.spread import _in_chunks, _one_by_one, nearest
from penstock.estimate.kernels.trees import Forest, _descend, _descend_together


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 5))
    return rows, np.sin(rows[:, 0]) + rows[:, 1] * (rows[:, 2] > 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_arrays_equal_the_library(data: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    rows, targets = data
    growth = Growth(trees=20)
    booster = HistGradientBoostingRegressor(
        loss="absolute_error" if seed % 2 else "squared_error", max_iter=20, learning_rate=growth.rate,
        max_leaf_nodes=growth.leaves, min_samples_leaf=growth.fewest_rows, l2_regularization=growth.shrinkage,
        max_features=growth.columns, early_stopping=False, random_state=seed,
    ).fit(rows, targets)  # fmt: skip
    forest = grow(rows, targets, np.ones(len(rows)), growth, seed)

    fresh = np.random.default_rng(1).normal(size=(200, 5))
    off = np.abs(forest.predict(fresh) - booster.predict(fresh))
    assert np.median(off) < 1e-4  # stored numbers are rounded,
    assert np.mean(off > 1e-2) < 0.03  # which sends a row in a hundred another way


def test_all_ways_down_the_trees_agree(data: tuple[np.ndarray, np.ndarray]) -> None:
    rows, targets = data
    forest = grow(rows, targets, np.ones(len(rows)), Growth(trees=15), 0)
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
