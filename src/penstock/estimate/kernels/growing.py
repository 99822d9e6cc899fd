"""Growing the trees: the one part that needs scikit-learn."""

from dataclasses import dataclass

import numpy as np

from penstock.core import PenstockError
from penstock.estimate.kernels.trees import Forest
from penstock.estimate.kernels.work import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How large and how careful a boosted forest is."""

    trees: int = 200
    rate: float = 0.08
    leaves: int = 20
    fewest_rows: int = 8
    shrinkage: float = 2.0
    columns: float = 0.7
    """Share of the features each split may look at: decorrelates the trees."""


def grow(rows: Array, targets: Array, weights: Array, growth: Growth, seed: int) -> Forest:
    """Boosted trees; even seeds on squared, odd ones on absolute error, so that a mean of both minds outliers less."""
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
    except ImportError:
        raise PenstockError(
            "fitting a kernel model needs scikit-learn. Install it: pip install 'penstock[predict]'"
        ) from None
    booster = HistGradientBoostingRegressor(
        loss="absolute_error" if seed % 2 else "squared_error",
        max_iter=growth.trees,
        learning_rate=growth.rate,
        max_leaf_nodes=growth.leaves,
        min_samples_leaf=growth.fewest_rows,
        l2_regularization=growth.shrinkage,
        max_features=growth.columns,
        early_stopping=False,
        random_state=seed,
    ).fit(rows, targets, sample_weight=weights)
    trees = [stage[0].nodes for stage in booster._predictors]
    return _flattened(trees, float(np.ravel(booster._baseline_prediction)[0]))


def _flattened(trees: list[np.ndarray[tuple[int], np.dtype[np.void]]], base: float) -> Forest:
    """All trees in one set of arrays, small ones: a model of forty thousand rows is a few megabytes."""
    sizes = np.array([len(tree) for tree in trees])
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    shift = np.repeat(roots, sizes)
    nodes = np.concatenate(trees)
    leaf = nodes["is_leaf"].astype(bool)
    own = np.arange(len(nodes))
    return Forest(
        feature=np.where(leaf, 0, nodes["feature_idx"]).astype(np.int16),
        threshold=np.where(leaf, 0.0, nodes["num_threshold"]).astype(np.float32),
        left=np.where(leaf, own, nodes["left"] + shift).astype(np.int32),
        right=np.where(leaf, own, nodes["right"] + shift).astype(np.int32),
        value=np.where(leaf, nodes["value"], 0.0).astype(np.float32),
        roots=roots.astype(np.int32),
        base=base,
    )
