"""What a call should have given, and whether what it gave is wrong.

The reference of :mod:`~penstock.diagnose.operators.reference` decides where there is one. For any other operator the
library itself is asked, in float64, on the CPU and on contiguous copies: weaker, because a mistake that all dtypes and
devices share stays unseen, and so every judgement says on whose word it rests.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from penstock.diagnose.operators.call import Call, Results, as_array, as_arrays, mapped
from penstock.diagnose.operators.kernels.kernel import Expected
from penstock.diagnose.operators.tolerance import excess

_DRAWS = 2
"""Times that inputs are shaken to learn what a rounding of them does."""


class Source(StrEnum):
    """On whose word a judgement rests."""

    REFERENCE = "reference"
    WIDER = "same operator in float64"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """``error`` is in units of what is allowed: above 1 the call is wrong. ``why`` says why nobody judged."""

    error: float
    source: Source
    expected: Expected = ()
    why: str = ""

    @property
    def wrong(self) -> bool:
        return self.error > 1


def judge(call: Call, results: Results) -> Judgement:
    """Compare what came out with what should have."""
    values = as_arrays((call.args, call.named))
    if not _are_numbers(call):
        return Judgement(error=0.0, source=Source.NOBODY, why="its inputs are not all numbers")
    source = Source.REFERENCE if call.kernel else Source.WIDER
    try:
        expected = _expected(call, values, results)
    except Exception as problem:
        return Judgement(error=0.0, source=Source.NOBODY, why=f"{type(problem).__name__}: {problem}".split("\n")[0])
    if all(each is None for each in expected):
        return Judgement(error=0.0, source=Source.NOBODY, why="its result cannot be known")
    error = _error(call, results, expected, values, [0.0] * len(expected))
    if error > 1:
        error = _error(call, results, expected, values, _spreads(call, values, results, expected))
    return Judgement(error=error, source=source, expected=expected)


def _are_numbers(call: Call) -> bool:
    """Neither NaN nor +inf: what follows from those is told by whoever made them. Masks may hold -inf."""
    unread = call.kernel.unread if call.kernel else ()
    read = [value for at, value in enumerate(call.args) if at not in unread]
    leaves = tree_flatten((read, call.named))[0]
    floats = (leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_floating_point())
    return not any(bool(torch.isnan(tensor).any() | torch.isposinf(tensor).any()) for tensor in floats)


def _error(call: Call, results: Results, expected: Expected, values: Any, spreads: Sequence[float]) -> float:
    pairs = zip(results, expected, spreads, strict=False)
    return max((_one(call, got, wanted, values, spread) for got, wanted, spread in pairs
                if got is not None and wanted is not None),
               default=0.0)  # fmt: skip


def _one(call: Call, got: Tensor, wanted: NDArray[Any], values: Any, spread: float) -> float:
    actual = as_array(got)
    if not got.is_floating_point():
        if actual.shape != wanted.shape:
            return math.inf
        with np.errstate(invalid="ignore"):
            return 0.0 if np.array_equal(actual, wanted.astype(actual.dtype)) else math.inf
    wide = wanted.astype(np.float64, copy=False)
    return excess(actual, wide, call.rounding(got), length=_length(call, values, got), spread=spread)


def _length(call: Call, values: Any, got: Tensor) -> int:
    """Of the longest sum: as the kernel says, else as many inputs as there are to a result."""
    if call.kernel and call.kernel.length:
        args, named = values
        return max(1, call.kernel.length(*args, **_without_out(named)))
    largest = max((tensor.numel() for tensor in call.tensors()), default=1)
    return max(1, largest // max(got.numel(), 1))


def _spreads(call: Call, values: Any, results: Results, expected: Expected) -> list[float]:
    """How far each result moves when every input moves by one rounding."""
    units = [call.rounding(tensor).stored for tensor in call.tensors() if tensor.is_floating_point()]
    unit = max(units, default=0.0)
    draw = np.random.default_rng(len(units))
    found = [0.0] * len(expected)
    for _ in range(_DRAWS):
        shaken = mapped(values, lambda x: x * (1 + unit * draw.choice((-1.0, 1.0), size=x.shape)))
        moved = _expected(call, shaken, results)
        found = [max(so_far, _distance(a, b)) for so_far, a, b in zip(found, moved, expected, strict=True)]
    return found


def _distance(a: NDArray[Any] | None, b: NDArray[Any] | None) -> float:
    if a is None or b is None or a.dtype != np.float64 or not a.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b)
    return float(np.max(apart, where=np.isfinite(apart), initial=0.0))


def _expected(call: Call, values: Any, results: Results) -> Expected:
    args, named = values
    if call.kernel is None:
        return _wider(call, args, named)
    known = ((name, results[position]) for name, position in call.kernel.given)
    given = {name: as_array(tensor) for name, tensor in known if tensor is not None}
    with np.errstate(all="ignore"):
        return call.kernel.reference(*args, **_without_out(named), **given)


def _without_out(named: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if name not in ("out", "memory_format", "non_blocking")}


def _wider(call: Call, args: Any, named: Any) -> Expected:
    """The same operator on float64 copies on the CPU."""
    wide = Call(operator=call.operator, args=_as_tensors(args), named=_as_tensors(named))
    results = wide.results(wide.operator(*wide.args, **wide.named), wide.args, wide.named)
    return [None if each is None else each.contiguous().numpy() for each in results]


def _as_tensors(tree: Any) -> Any:
    def turned(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value.copy())
        if isinstance(value, torch.dtype) and value.is_floating_point:
            return torch.float64
        return torch.device("cpu") if isinstance(value, torch.device) else value

    return tree_map(turned, tree)
