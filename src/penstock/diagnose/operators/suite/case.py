"""One operator with one set of attributes and inputs, and what it should give."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.diagnose.operators.reference.products import Array

if TYPE_CHECKING:
    from torch import Tensor

Arrays = Mapping[str, Array]
Compute = Callable[[Mapping[str, "Tensor"]], Sequence["Tensor"]]
Answer = tuple[Sequence[Array | None], Arrays]
"""Outputs, and gradients by the name of the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``compute`` is what a device does with ``inputs``; the first output gets ``upstream`` as its gradient.

    ``reference`` is asked with the inputs as the dtype holds them, the upstream gradient, and what the device gave,
    for operators that draw numbers of their own.
    """

    operator: str
    variant: str = ""
    inputs: Arrays
    compute: Compute
    reference: Callable[[Arrays, Array, Sequence[Array]], Answer]
    upstream: Array
    length: int = 1
    coarse: bool = False
    """Whether devices may take its float32 products of TF32 numbers."""
    dtypes: tuple[str, ...] = ("float32", "bfloat16", "float16")
    by_tensor: bool = True
    """Whether it exists in other layouts than contiguous ones."""

    @property
    def name(self) -> str:
        return f"{self.operator} ({self.variant})" if self.variant else self.operator


def numbers(seed: int, *shape: int, scale: float = 1.0) -> Array:
    """Of one seed, the same everywhere."""
    return scale * np.random.default_rng(seed).standard_normal(shape)


def indices(seed: int, below: int, *shape: int) -> Any:
    return np.random.default_rng(seed).integers(0, below, shape)
