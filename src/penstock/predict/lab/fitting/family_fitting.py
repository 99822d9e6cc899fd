"""Fitting one family: physics first, then trees on what physics leaves, tested on shapes they have not seen.

Two forests are grown on all rows: one for the time a kernel usually takes, one for the mean, which sums need. How far
off they are on shapes they have not seen is told by others, grown without a quarter of the *shape families* each (the
same layer at another batch size is no test): the spread of those residuals makes the error bars. Last, where a layer
may be asked for at other batch sizes, what is known of the very same one is kept beside the trees.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.core import InputError
from penstock.predict.hardware import Chip
from penstock.predict.kernels.calls import KernelCall
from penstock.predict.kernels.family import FamilyModel, rates_of
from penstock.predict.kernels.features import features
from penstock.predict.kernels.physics import Physics, Rates
from penstock.predict.kernels.shapes import physics_key, shape_family
from penstock.predict.kernels.tiling import Array, TiledWork, work_of
from penstock.predict.lab.fitting.boosting import BoostingOptions, BoostingTarget, boosted_forest
from penstock.predict.lab.fitting.error_bar_fitting import fit_error_bars, widest_error_bars
from penstock.predict.lab.fitting.layer_memory_fitting import remember_layers
from penstock.predict.lab.fitting.physics_fitting import fit_physics

_FOLDS = 4
_ROWS_FOR_PHYSICS = 1500
_FEWEST_FOR_OWN_PHYSICS = 40
_FEWEST_FOR_TREES = 30
_LARGEST_LEARNED = 4.0
"""No row asks the trees for more (as a logarithm): a kernel that took a hundred times as long would rule its leaf."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCall:
    """A call and the seconds it took.

    ``alone`` if it was measured outside of a network: as a neighbour of layers people use, hardly as one of them.
    """

    call: KernelCall
    seconds: float
    weight: float = 1.0
    alone: bool = False

    def __post_init__(self) -> None:
        if not (0 < self.seconds < float("inf") and 0 < self.weight < float("inf")):
            raise InputError(
                f"a {self.call.family} kernel measured at {self.seconds} s with weight {self.weight}",
                "positive, finite numbers",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """The measured rows of one family, in columns."""

    calls: Sequence[KernelCall]
    work: TiledWork
    rates: Rates
    seconds: Array
    weights: Array
    remembered: npt.NDArray[np.bool_]
    """Rows in networks: others say nothing about single layers that will be asked for."""
    keys: npt.NDArray[np.str_]


def fit_family(rows: Sequence[MeasuredCall], chip: Chip, options: BoostingOptions, seed: int) -> FamilyModel:
    """O(rows x trees): about a second per thousand rows."""
    sample = _sample(rows, chip)
    model = _with_physics(FamilyModel(family=rows[0].call.family), sample, seed)
    return _with_layer_memory(_with_trees(model, sample, options, seed), sample)


def folds_of(calls: Sequence[KernelCall], count: int, seed: int) -> npt.NDArray[np.int64]:
    """A fold for every call, the same for all of one shape family, and the same on every machine."""

    def fold(call: KernelCall) -> int:
        key = f"{seed}/{call.family.split('_')[0]}/{shape_family(call)}".encode()
        return int.from_bytes(hashlib.blake2b(key, digest_size=4).digest(), "big") % count

    return np.array([fold(call) for call in calls])


def _sample(rows: Sequence[MeasuredCall], chip: Chip) -> _Sample:
    calls = [row.call for row in rows]
    return _Sample(
        calls=calls,
        work=work_of(calls[0].family, calls),
        rates=rates_of(calls, chip),
        seconds=np.array([row.seconds for row in rows]),
        weights=np.array([row.weight for row in rows]),
        remembered=np.array([not row.alone for row in rows]),
        keys=np.array([physics_key(call) for call in calls]),
    )


def _with_physics(model: FamilyModel, sample: _Sample, seed: int) -> FamilyModel:
    """Coefficients of the family, then of each precision and layout that has enough rows to move them."""
    shared = _physics(Physics(), sample, np.ones(len(sample.seconds), dtype=np.bool_), seed)
    own = {}
    for name in np.unique(sample.keys):
        mine = sample.keys == name
        enough = mine.sum() >= _FEWEST_FOR_OWN_PHYSICS
        own[str(name)] = _physics(shared, sample, mine, seed) if enough else shared
    return replace(model, physics=own, fallback=shared)


def _physics(start: Physics, sample: _Sample, mine: npt.NDArray[np.bool_], seed: int) -> Physics:
    index = np.flatnonzero(mine)
    if len(index) > _ROWS_FOR_PHYSICS:
        chances = sample.weights[index] / sample.weights[index].sum()
        index = np.random.default_rng(seed).choice(index, _ROWS_FOR_PHYSICS, p=chances)
    weights = sample.weights[index] if len(index) == mine.sum() else np.ones(len(index))
    work, rates = sample.work.rows(index), sample.rates.rows(index)
    return fit_physics(start, work, rates, sample.seconds[index], weights)


def _with_trees(model: FamilyModel, sample: _Sample, options: BoostingOptions, seed: int) -> FamilyModel:
    terms = model.terms(sample.calls, sample.work, sample.rates)
    off = np.log(sample.seconds / terms.total)
    if len(off) < _FEWEST_FOR_TREES:
        return replace(model, error_bars=widest_error_bars(sample.work.shape, off))
    model = replace(model, variants=_variant_codes(sample.calls, off))
    rows = features(sample.calls, sample.work, sample.rates, terms, model.variants)
    fold = folds_of(sample.calls, _FOLDS, seed)
    asked = np.clip(off, -_LARGEST_LEARNED, _LARGEST_LEARNED)
    left_off = off - _unseen(rows, asked, sample.weights, fold, options, seed)
    return replace(
        model,
        usual=(boosted_forest(rows, asked, sample.weights, options, seed),),
        mean=boosted_forest(
            rows, asked, sample.weights, replace(options, trees=options.mean_trees), seed, BoostingTarget.MEAN
        ),
        error_bars=fit_error_bars(sample.work.shape, left_off, fold.astype(float)),
    )


def _with_layer_memory(model: FamilyModel, sample: _Sample) -> FamilyModel:
    """What the model is still off on layers that may be asked for again."""
    other_batches = np.array([shape_family(call) != call.dims for call in sample.calls])
    kept = np.flatnonzero(sample.remembered & other_batches)
    if not len(kept):
        return model
    calls, work, rates = [sample.calls[int(number)] for number in kept], sample.work.rows(kept), sample.rates.rows(kept)
    terms = model.terms(calls, work, rates)
    off = np.log(sample.seconds[kept] / terms.total)[:, None] - model.corrections(calls, work, rates, terms)
    return replace(model, layer_memory=remember_layers(calls, off))


def _unseen(
    rows: Array, off: Array, weights: Array, fold: npt.NDArray[np.int64], options: BoostingOptions, seed: int
) -> Array:
    """For every row what a forest predicts that has not seen its shape family; half as large, since four are grown."""
    found, smaller = np.zeros(len(off)), replace(options, trees=max(1, options.trees // 2))
    for number in np.unique(fold):
        out = fold == number
        kept = ~out if np.any(~out) else out
        found[out] = boosted_forest(rows[kept], off[kept], weights[kept], smaller, seed + int(number)).predict(
            rows[out]
        )
    return found


def _variant_codes(calls: Sequence[KernelCall], off: Array) -> dict[str, float]:
    """The mean residual of each variant, drawn towards zero where few rows speak for it."""
    names = np.array([call.variant for call in calls])
    return {str(name): float(off[names == name].sum() / ((names == name).sum() + 3)) for name in np.unique(names)}
