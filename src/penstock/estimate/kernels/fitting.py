"""Fitting one family: physics first, then trees on what physics leaves, tested on shapes they have not seen.

Two forests are grown on all rows, one on squared and one on absolute error, and the prediction is their mean. How far
off they are on shapes they have not seen is told by others, grown without a quarter of the *shape families* each (the
same layer at another batch size is no test). Those residuals serve twice: their variance corrects sums (the exponential
of a mean logarithm is too small, see Duan's smearing), their spread makes the error bars. Last, what is known of the
very same layer at other batch sizes is kept beside the trees.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.core import InputError
from penstock.estimate.hardware import Chip
from penstock.estimate.kernels.calls import KernelCall
from penstock.estimate.kernels.family import FamilyModel, rates_of
from penstock.estimate.kernels.features import features, variant_codes
from penstock.estimate.kernels.growing import Growth, grow
from penstock.estimate.kernels.physics import Physics, Rates
from penstock.estimate.kernels.recall import Recall
from penstock.estimate.kernels.shapes import physics_key, shape_family
from penstock.estimate.kernels.spread import Spread
from penstock.estimate.kernels.work import Array, Work, work_of

_FOLDS = 4
_ROWS_FOR_PHYSICS = 1500
_FEWEST_FOR_OWN_PHYSICS = 40
_FEWEST_FOR_TREES = 30
_LARGEST_LEARNED = 2.0
"""No row asks the trees for more (as a logarithm): a kernel that took a hundred times as long would rule its leaf."""
_LARGEST_SMEARED = 0.5
_KINSHIP_PER_GENERATION = 5.0
_TRUST_ELSEWHERE = 0.5
"""The share of the learned correction applied to a generation nobody measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCall:
    """A call and the seconds it took; ``chip`` if that was not the device the model is for.

    ``alone`` if it was measured outside of a network: it says how long such a call takes, not how often there is one.
    """

    call: KernelCall
    seconds: float
    weight: float = 1.0
    chip: Chip | None = None
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
    chips: Sequence[Chip]
    work: Work
    rates: Rates
    seconds: Array
    weights: Array
    shares: Array
    """How much a row counts in a mean over what networks run."""
    keys: npt.NDArray[np.str_]


def fit_family(rows: Sequence[MeasuredCall], chip: Chip, growth: Growth, seed: int) -> FamilyModel:
    """O(rows x trees): about a second per thousand rows."""
    sample = _sample(rows, chip)
    model = _with_physics(FamilyModel(family=rows[0].call.family), sample, seed)
    if all(other.generation != chip.generation for other in sample.chips):
        model = replace(model, trust=_TRUST_ELSEWHERE)
    return _with_recall(_with_trees(model, sample, growth, seed), sample, chip)


def folds_of(calls: Sequence[KernelCall], count: int, seed: int) -> npt.NDArray[np.int64]:
    """A fold for every call, the same for all of one shape family, and the same on every machine."""

    def fold(call: KernelCall) -> int:
        key = f"{seed}/{call.family.split('_')[0]}/{shape_family(call)}".encode()
        return int.from_bytes(hashlib.blake2b(key, digest_size=4).digest(), "big") % count

    return np.array([fold(call) for call in calls])


def _sample(rows: Sequence[MeasuredCall], chip: Chip) -> _Sample:
    calls = [row.call for row in rows]
    chips = [row.chip or chip for row in rows]
    kinship = np.array([_kinship(chip, other) for other in chips])
    weights = np.array([row.weight for row in rows]) * kinship / kinship.max()
    usual = np.array([not row.alone for row in rows])
    return _Sample(
        calls=calls,
        chips=chips,
        work=work_of(calls[0].family, calls),
        rates=rates_of(calls, chips),
        seconds=np.array([row.seconds for row in rows]),
        weights=weights,
        shares=weights * usual if usual.any() else weights,
        keys=np.array([physics_key(call) for call in calls]),
    )


def _kinship(chip: Chip, other: Chip) -> float:
    return float(np.exp(-_KINSHIP_PER_GENERATION * abs(chip.generation - other.generation)))


def _with_physics(model: FamilyModel, sample: _Sample, seed: int) -> FamilyModel:
    """Coefficients of the family, then of each precision and layout that has enough rows to move them."""
    everything = np.ones(len(sample.seconds), dtype=np.bool_)
    shared = _physics(Physics(), sample, everything, seed)
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
    return start.fitted(sample.work.rows(index), sample.rates.rows(index), sample.seconds[index], weights)


def _with_trees(model: FamilyModel, sample: _Sample, growth: Growth, seed: int) -> FamilyModel:
    terms = model.terms(sample.calls, sample.work, sample.rates)
    off = np.log(sample.seconds / terms.total)
    if len(off) < _FEWEST_FOR_TREES:
        return replace(model, spread=_wide_spread(sample, off))
    model = replace(model, variants=variant_codes(sample.calls, off))
    rows = features(sample.calls, sample.work, sample.rates, terms, model.variants)
    fold = folds_of(sample.calls, _FOLDS, seed)
    asked = np.clip(off, -_LARGEST_LEARNED, _LARGEST_LEARNED)
    left_off = off - model.trust * _unseen(rows, asked, sample.weights, fold, growth, seed)
    return replace(
        model,
        forests=tuple(grow(rows, asked, sample.weights, growth, number) for number in (seed, seed + 1)),
        bias=_smearing(left_off, sample.shares * np.sqrt(sample.seconds)),
        spread=Spread.learned(sample.work.shape, left_off, fold.astype(float)),
    )


def _with_recall(model: FamilyModel, sample: _Sample, chip: Chip) -> FamilyModel:
    """What the model is still off on the device's own rows; those of relatives say nothing about single layers."""
    own = [number for number, each in enumerate(sample.chips) if each == chip]
    if not own:
        return model
    terms = model.terms(sample.calls, sample.work, sample.rates)
    learned = model.correction(sample.calls, sample.work, sample.rates, terms)
    off = np.log(sample.seconds / terms.total) - learned
    return replace(model, recall=Recall.learned([sample.calls[number] for number in own], off[own]))


def _smearing(off: Array, weights: Array) -> float:
    """What makes a sum of exponentials unbiased: the exponential of a mean logarithm lies below the mean.

    Long kernels weigh more in a sum, but not so much more that a few of them decide: by the root of their time.
    """
    near = np.clip(off, -_LARGEST_SMEARED, _LARGEST_SMEARED)
    return float(np.log(np.average(np.exp(near), weights=weights)))


def _unseen(rows: Array, off: Array, weights: Array, fold: npt.NDArray[np.int64], growth: Growth, seed: int) -> Array:
    """For every row what a forest predicts that has not seen its shape family; half as large, since four are grown."""
    found, smaller = np.zeros(len(off)), replace(growth, trees=max(1, growth.trees // 2))
    for number in np.unique(fold):
        out = fold == number
        kept = ~out if np.any(~out) else out
        found[out] = grow(rows[kept], off[kept], weights[kept], smaller, seed + int(number)).predict(rows[out])
    return found


def _wide_spread(sample: _Sample, off: Array) -> Spread:
    """Too few rows for left-out residuals: what physics itself missed, doubled."""
    return Spread(
        references=np.unique(sample.work.shape, axis=0),
        distances=np.zeros(1),
        widths=np.array([2 * float(np.abs(off).max())]),
    )
