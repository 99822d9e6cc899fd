"""How far a result may be from its float64 reference before it is wrong.

A result is rounded when it is stored, its sums are rounded as they grow, and both can be magnified where large terms
cancel. The first two are known from the dtype and the length of the sums; the third is found by asking the reference
what it makes of inputs that are themselves off by one rounding. So one rule holds for every operator, with two
constants, and an operator that cancels by its nature raises no alarm.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.diagnose.operators.reference.products import Array

STORED = 4.0
"""Roundings to the stored dtype that a result may have seen: fused operators keep a few intermediates in it."""
SUMMED = 16.0
"""Times unit roundoff times the square root of the length of a sum: what orders of summation differ by, at most."""
_NEARLY_TOO_LARGE = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """Of a dtype: unit roundoff of what is stored and of sums, what is too small to count and too large to hold."""

    stored: float
    summed: float
    floor: float
    largest: float

    def through(self, stored: float) -> "Rounding":
        """The same dtype where products are taken of coarser numbers, as TF32 does with float32."""
        return Rounding(stored=max(self.stored, stored), summed=self.summed, floor=self.floor, largest=self.largest)


_SINGLE = 2.0**-24
ROUNDINGS = {
    "float64": Rounding(stored=2.0**-53, summed=2.0**-53, floor=2.3e-308, largest=1.7e308),
    "float32": Rounding(stored=_SINGLE, summed=_SINGLE, floor=1.2e-38, largest=3.4e38),
    "bfloat16": Rounding(stored=2.0**-8, summed=_SINGLE, floor=1.2e-38, largest=3.38e38),
    "float16": Rounding(stored=2.0**-11, summed=_SINGLE, floor=6.0e-8, largest=65504.0),
}
TF32 = 2.0**-11


def excess(
    actual: NDArray[np.generic], expected: Array, rounding: Rounding, *, length: int = 1, spread: float = 0.0
) -> float:
    """The largest error in units of what is allowed: above 1 the result is wrong.

    ``length`` is that of its sums, ``spread`` what one rounding of the inputs moves the reference by.
    """
    if actual.shape != expected.shape:
        return math.inf
    if not expected.size:
        return 0.0
    got, wanted = actual.astype(np.float64, copy=False), _held(expected, actual, rounding)
    strange = ~np.isfinite(wanted) | ~np.isfinite(got)
    if strange.any() and not _alike(got[strange], wanted[strange]):
        return math.inf
    size = np.abs(np.where(strange, 0.0, wanted))
    growth = SUMMED * rounding.summed * math.sqrt(length)
    relative = STORED * rounding.stored + growth
    absolute = relative / STORED * math.sqrt(float((size * size).mean()))
    magnified = spread * (STORED + growth / rounding.stored)
    allowed = relative * size + absolute + magnified + rounding.floor
    return float((np.where(strange, 0.0, np.abs(np.where(strange, 0.0, got) - size * np.sign(wanted))) / allowed).max())


def _held(expected: Array, actual: NDArray[np.generic], rounding: Rounding) -> Array:
    """The reference as the dtype can hold it: next to its largest number, either answer is right."""
    edge = np.abs(expected) > _NEARLY_TOO_LARGE * rounding.largest
    if not edge.any():
        return expected
    over = edge & np.isinf(actual.astype(np.float64)) & (np.sign(actual.astype(np.float64)) == np.sign(expected))
    return np.where(over, np.where(expected > 0, np.inf, -np.inf), expected)


def _alike(got: Array, wanted: Array) -> bool:
    return bool(
        np.array_equal(np.isnan(got), np.isnan(wanted))
        and np.array_equal(got[~np.isnan(got)], wanted[~np.isnan(wanted)])
    )
