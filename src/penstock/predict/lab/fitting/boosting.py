"""Boosted trees, grown by scikit-learn: the one part of the laboratory that needs it."""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from penstock.core import require
from penstock.predict.kernels.packing import rounded_leaves
from penstock.predict.kernels.tiling import Array
from penstock.predict.kernels.trees import Forest

_LEAVES_BY_ROWS = ((45_000, 127), (10_000, 63), (0, 31))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoostingOptions:
    """How large and how careful a boosted forest is."""

    trees: int = 300
    mean_trees: int = 150
    """Of the forest of the mean, which only sums need."""
    rate: float = 0.1
    leaves: int = 127
    fewest_rows: int = 5
    shrinkage: float = 2.0
    columns: float = 0.7
    """Share of the features each split may look at: decorrelates the trees."""
    bins: int = 255
    """How many values of a feature are told apart. Finding where to cut takes most of the time where rows are few."""

    @classmethod
    def for_rows(cls, count: int) -> "BoostingOptions":
        """As many leaves as a family's rows can tell apart: more make a file larger and predictions no better."""
        return cls(leaves=next(leaves for fewest, leaves in _LEAVES_BY_ROWS if count >= fewest))


class BoostingTarget(Enum):
    """What a forest predicts where kernels that look alike take different times."""

    USUAL = "usual"
    """What makes the mean square of the relative error smallest: E[1/t] / E[1/t^2], the lower the more they differ."""
    MEAN = "mean"
    """E[t], for sums: there, what took longer than expected is not made up for by what took as much less."""


def boosted_forest(
    rows: Array,
    targets: Array,
    weights: Array,
    options: BoostingOptions,
    seed: int,
    aim: BoostingTarget = BoostingTarget.USUAL,
) -> Forest:
    """Boosted trees of log(time / physics).

    The deviance of a gamma distribution has its minimum at the mean. Taken of the inverse ratio, with rows weighted by
    that ratio once more, it has its minimum at the usual time.
    """
    require("sklearn", extra="predict", why="fitting a kernel model")
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    sign = -1 if aim is BoostingTarget.USUAL else 1
    asked = np.exp(sign * targets)
    weights = weights * asked if aim is BoostingTarget.USUAL else weights
    booster = HistGradientBoostingRegressor(
        loss="gamma",
        max_iter=options.trees,
        learning_rate=options.rate,
        max_leaf_nodes=options.leaves,
        min_samples_leaf=options.fewest_rows,
        l2_regularization=options.shrinkage,
        max_features=options.columns,
        max_bins=options.bins,
        early_stopping=False,
        random_state=seed,
    )
    with threadpool_limits(1):  # a few thousand rows: threads that wait for each other take longer than one alone
        booster.fit(rows, asked, sample_weight=weights / weights.mean())
    trees = [stage[0].nodes for stage in booster._predictors]
    return _flattened(trees, float(np.ravel(booster._baseline_prediction)[0]), sign)


def _flattened(trees: list[np.ndarray[tuple[int], np.dtype[np.void]]], base: float, sign: int) -> Forest:
    """All trees in one set of arrays."""
    sizes = np.array([len(tree) for tree in trees])
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    shift = np.repeat(roots, sizes)
    nodes = np.concatenate(trees)
    leaf = nodes["is_leaf"].astype(bool)
    own = np.arange(len(nodes))
    after = np.where(leaf, own, nodes["right"] + shift)
    numbers = np.where(leaf, sign * nodes["value"], nodes["num_threshold"])
    return Forest(
        feature=np.where(leaf, 0, nodes["feature_idx"]).astype(np.int16),
        number=rounded_leaves(numbers, leaf, roots.astype(np.int32)),
        right=after.astype(np.int32),
        roots=roots.astype(np.int32),
        base=sign * base,
    )
