"""Runs cases on a device, in every dtype and layout, and says which are wrong."""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from penstock.diagnose.operators.call import as_array
from penstock.diagnose.operators.reference.products import Array
from penstock.diagnose.operators.suite.case import Case
from penstock.diagnose.operators.suite.losses import activation_cases, attention_cases, loss_cases
from penstock.diagnose.operators.suite.norms import norm_cases
from penstock.diagnose.operators.suite.products import product_cases
from penstock.diagnose.operators.tolerance import ROUNDINGS, TF32, Rounding, excess

_REPEATS = 2
_TF32 = "tf32"
"""Float32 tensors whose products are taken of coarser numbers: a mode of some devices and not a dtype."""
COMPILED = ("linear", "layer_norm", "softmax", "gelu", "cross_entropy")
"""Operators that are tried under torch.compile: one of each family that it makes kernels of its own for."""


class Layout(StrEnum):
    """How the inputs lie in memory."""

    CONTIGUOUS = "contiguous"
    STRIDED = "strided"
    TURNED = "turned"
    CHANNELS_LAST = "channels_last"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The largest error of a case in units of what is allowed, where it was, and whether it came back the same."""

    operator: str
    name: str
    dtype: str
    layout: Layout
    error: float = 0.0
    where: str = ""
    repeats: bool = True
    compiled: bool = False
    problem: str = ""

    @property
    def wrong(self) -> bool:
        return self.error > 1 or bool(self.problem)

    @property
    def line(self) -> str:
        way = f"{self.name}, {self.dtype}, {self.layout}" + (", compiled" if self.compiled else "")
        if self.problem:
            return f"{way}: {self.problem}"
        how = "" if self.repeats else ", not the same twice"
        return f"{way}: {self.where} off by {self.error:.3g} times what is allowed{how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    results: tuple[CaseResult, ...]
    checksum: str
    seconds: float

    @property
    def wrong(self) -> tuple[CaseResult, ...]:
        return tuple(result for result in self.results if result.wrong)


def all_cases() -> list[Case]:
    return [*product_cases(), *norm_cases(), *loss_cases(), *activation_cases(), *attention_cases()]


def run_suite(
    device: str, *, cases: Sequence[Case] | None = None, dtypes: Sequence[str] = ("float32", "bfloat16", "float16"),
    layouts: Sequence[Layout] = tuple(Layout), compiled: bool = False,
) -> SuiteResult:  # fmt: skip
    """Every case in every dtype and layout that it has; ``checksum`` is of all results that came back the same."""
    started, digest, found = time.perf_counter(), hashlib.sha256(), []
    for case in all_cases() if cases is None else cases:
        for dtype in (each for each in dtypes if each != _TF32 or case.coarse):
            found += [_tried(case, dtype, layout, device, digest) for layout in layouts if _exists(case, layout)]
        if compiled and case.operator in COMPILED and not case.variant:
            found.append(_compiled(case, device, digest))
    seconds = time.perf_counter() - started
    return SuiteResult(results=tuple(found), checksum=digest.hexdigest()[:16], seconds=seconds)


def _exists(case: Case, layout: Layout) -> bool:
    if layout is Layout.CHANNELS_LAST:
        return any(array.ndim == 4 for array in case.inputs.values()) and case.operator != "attention"
    return True


def _compiled(case: Case, device: str, digest: Any) -> CaseResult:
    torch._dynamo.reset()
    made: Any = torch.compile(case.compute, dynamic=False)
    seen = _tried(replace(case, compute=made), "float32", Layout.CONTIGUOUS, device, digest)
    return replace(seen, compiled=True)


def _tried(case: Case, dtype: str, layout: Layout, device: str, digest: Any) -> CaseResult:
    result = CaseResult(operator=case.operator, name=case.name, dtype=dtype, layout=layout)
    try:
        with _arithmetic(tf32=dtype == _TF32):
            runs = [_run(case, dtype, layout, device) for _ in range(_REPEATS)]
    except Exception as problem:
        return replace(result, problem=f"{type(problem).__name__}: {str(problem).splitlines()[0]}")
    repeats = all(_equal(runs[0], other) for other in runs[1:])
    if repeats:
        for array in runs[0].values():
            digest.update(np.ascontiguousarray(array).tobytes())
    error, where = max((_judged(case, run, dtype) for run in runs), key=lambda pair: pair[0])
    return replace(result, error=error, where=where, repeats=repeats)


def _run(case: Case, dtype: str, layout: Layout, device: str) -> dict[str, NDArray[Any]]:
    """Outputs and gradients by name, as arrays."""
    torch.manual_seed(0)
    inputs = {
        name: laid_out(torch.from_numpy(array), layout, dtype, device).requires_grad_()
        for name, array in case.inputs.items()
    }
    outputs = case.compute(inputs)
    upstream = torch.from_numpy(case.upstream).to(device, outputs[0].dtype)
    wanted = [name for name in inputs if name not in ("mean", "variance")]
    grads = torch.autograd.grad(outputs[0], [inputs[name] for name in wanted], upstream)
    told = {f"output {number}": as_array(out) for number, out in enumerate(outputs)}
    return told | {f"gradient of {name}": as_array(grad) for name, grad in zip(wanted, grads, strict=True)}


def laid_out(tensor: Tensor, layout: Layout, dtype: str, device: str) -> Tensor:
    """The same values, elsewhere in memory."""
    plain = tensor.to(device, _held_in(dtype))
    if layout is Layout.STRIDED:
        wide = torch.zeros(*plain.shape, 2, dtype=plain.dtype, device=device)
        wide[..., 0] = plain
        return wide[..., 0].detach()
    if layout is Layout.TURNED and plain.dim() > 1:
        return plain.transpose(-1, -2).contiguous().transpose(-1, -2).detach()
    if layout is Layout.CHANNELS_LAST and plain.dim() == 4:
        return plain.contiguous(memory_format=torch.channels_last).detach()
    return plain.contiguous().detach()


def _judged(case: Case, run: Mapping[str, NDArray[Any]], dtype: str) -> tuple[float, str]:
    rounding = ROUNDINGS["float32"].through(TF32) if dtype == _TF32 else ROUNDINGS[dtype]
    held = {name: _as_held(array, dtype) for name, array in case.inputs.items()}
    actual = [run[name] for name in run if name.startswith("output")]
    answer = _named(case, held, _as_held(case.upstream, dtype), actual)
    first = _worst(case, run, answer, rounding, dict.fromkeys(answer, 0.0))
    if first[0] <= 1:
        return first
    return _worst(case, run, answer, rounding, _spreads(case, held, actual, answer, rounding, dtype))


def _worst(
    case: Case, run: Mapping[str, NDArray[Any]], answer: Mapping[str, Array | None], rounding: Rounding,
    spreads: Mapping[str, float],
) -> tuple[float, str]:  # fmt: skip
    errors = (
        (excess(run[name], wanted, rounding, length=case.length, spread=spreads[name]), name)
        for name, wanted in answer.items()
        if wanted is not None
    )
    return max(errors, default=(0.0, ""))


def _named(case: Case, held: Mapping[str, Array], upstream: Array, actual: Sequence[Array]) -> dict[str, Array | None]:
    with np.errstate(all="ignore"):
        outputs, grads = case.reference(held, upstream, actual)
    told: dict[str, Array | None] = {f"output {number}": out for number, out in enumerate(outputs)}
    return told | {f"gradient of {name}": grad for name, grad in grads.items()}


def _spreads(
    case: Case, held: Mapping[str, Array], actual: Sequence[Array], answer: Mapping[str, Array | None],
    rounding: Rounding, dtype: str,
) -> dict[str, float]:  # fmt: skip
    """What one rounding of the inputs moves the reference by."""
    draw = np.random.default_rng(7)
    found = dict.fromkeys(answer, 0.0)
    shake: Callable[[Array], Array] = lambda x: x * (1 + rounding.stored * draw.choice((-1.0, 1.0), size=x.shape))  # noqa: E731
    for _ in range(2):
        upstream = shake(_as_held(case.upstream, dtype))
        moved = _named(case, {name: shake(x) for name, x in held.items()}, upstream, actual)
        for name, value in answer.items():
            other = moved[name]
            if value is not None and other is not None and value.size:
                found[name] = max(found[name], float(np.abs(value - other).max()))
    return found


@contextmanager
def _arithmetic(*, tf32: bool) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def _held_in(dtype: str) -> torch.dtype:
    found: torch.dtype = torch.float32 if dtype == _TF32 else getattr(torch, dtype)
    return found


def _as_held(array: Array, dtype: str) -> Array:
    return as_array(torch.from_numpy(np.array(array)).to(_held_in(dtype)))


def _equal(left: Mapping[str, NDArray[Any]], right: Mapping[str, NDArray[Any]]) -> bool:
    return all(np.array_equal(left[name], right[name], equal_nan=True) for name in left)
