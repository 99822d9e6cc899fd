"""How sure an average over seeds is: 95 % intervals by Student's t."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""The 97.5 % quantile of Student's t with 1, 2, … degrees of freedom."""
_NORMAL_975 = 1.959964


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean, and how far the true one may be from it: with 95 % confidence within ``half`` of it.

    ``half`` is NaN where a single value says nothing about the spread.
    """

    mean: float
    half: float
    count: int

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    @property
    def excludes_zero(self) -> bool:
        """Whether the values differ from zero for more than chance; a single value never does."""
        return not math.isnan(self.half) and (self.low > 0 or self.high < 0)


def interval(values: Sequence[float]) -> MeanInterval:
    """The mean of independent values with its 95 % interval; NaN is left out.

    >>> found = interval([1.0, 2.0, 3.0])
    >>> found.mean, round(found.half, 3)
    (2.0, 2.484)
    """
    known = np.array([value for value in values if value is not None and not math.isnan(value)])
    if not len(known):
        return MeanInterval(math.nan, math.nan, 0)
    if len(known) == 1:
        return MeanInterval(float(known[0]), math.nan, 1)
    error = float(known.std(ddof=1)) / math.sqrt(len(known))
    return MeanInterval(float(known.mean()), student_t(len(known) - 1) * error, len(known))


def student_t(freedom: int) -> float:
    """The 97.5 % quantile; beyond the table by the first terms of Cornish and Fisher, off by less than 0.001."""
    if freedom <= len(_T_975):
        return _T_975[freedom - 1]
    z = _NORMAL_975
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
