"""Growing the trees: the one part that needs scikit-learn."""

from dataclasses import dataclass

import numpy as np

from penstock.core import PenstockError
from penstock.estimate.kernels.trees import Forest, Numbers
from penstock.estimate.kernels.work import Array

_DROPPED_BITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How large and how careful a boosted forest is."""

    trees: int = 300
    rate: float = 0.1
    leaves: int = 127
    fewest_rows: int = 5
    shrinkage: float = 2.0
    columns: float = 0.7
    """Share of the features each split may look at: decorrelates the trees."""


def grow(rows: Array, targets: Array, weights: Array, growth: Growth, seed: int) -> Forest:
    """Boosted trees; even seeds on squared, odd ones on absolute error, so that a mean of both minds outliers less.

    Equal weights are left away: medians of weighted rows take the library five times as long.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from threadpoolctl import threadpool_limits
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
    )
    with threadpool_limits(1):  # a few thousand rows: threads that wait for each other take longer than one alone
        booster.fit(rows, targets, sample_weight=weights if np.ptp(weights) else None)
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
    after = np.where(leaf, own, nodes["right"] + shift)
    return Forest(
        feature=np.where(leaf, 0, nodes["feature_idx"]).astype(np.int16),
        number=_rounded(np.where(leaf, nodes["value"], nodes["num_threshold"])),
        right=after.astype(np.int32),
        roots=roots.astype(np.int32),
        base=base,
    )


def _rounded(numbers: Array) -> Numbers:
    """To eleven bits: a twentieth of a percent does not matter, and zeros are stored in no space."""
    low_bits = np.uint32((1 << _DROPPED_BITS) - 1)
    whole = numbers.astype(np.float32).view(np.uint32)
    return np.asarray(((whole + (low_bits >> 1)) & ~low_bits).view(np.float32))
