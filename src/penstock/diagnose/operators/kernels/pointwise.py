"""Calls of activations, arithmetic, sums and copies."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.diagnose.operators.kernels.kernel import Expected, Kernel
from penstock.diagnose.operators.reference import pointwise
from penstock.diagnose.operators.reference.products import Array


def _one(kind: str, function: Callable[..., Any], length: Callable[..., int] | None = None) -> Kernel:
    """An operator with one result."""
    return Kernel(kind=kind, reference=lambda *args, **named: (np.asarray(function(*args, **named)),), length=length)


def _gelu(x: Array, *, approximate: str = "none") -> Array:
    return pointwise.gelu(x, tanh=approximate == "tanh")


def _gelu_backward(grad: Array, x: Array, *, approximate: str = "none") -> Array:
    return pointwise.gelu_backward(grad, x, tanh=approximate == "tanh")


def _dropout(x: Array, share: float, training: bool | None, *, mask: NDArray[np.bool_] | None = None) -> Expected:
    if mask is None or training is False:
        return (x if training is False else None), None
    return pointwise.dropout(x, mask, 1 - share), None


def _dropout_backward(grad: Array, mask: NDArray[np.bool_], scale: float) -> Array:
    return grad * mask * scale


def _div(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    with np.errstate(all="ignore"):
        if rounding_mode == "floor":
            return np.floor_divide(x, y)
        return np.trunc(np.true_divide(x, y)) if rounding_mode == "trunc" else np.true_divide(x, y)


def _total(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(x: Array, axes: Sequence[int] | int | None = None, keep: bool = False, **_: Any) -> Any:
        over = tuple(np.atleast_1d(axes).tolist()) if axes is not None and np.size(axes) else None
        return function(x.astype(np.float64), axis=over, keepdims=keep and over is not None)

    return reduced


def _summed(x: Array, axes: Sequence[int] | int | None = None, *_: Any, **__: Any) -> int:
    if axes is None or not np.size(axes):
        return int(x.size)
    return int(np.prod([x.shape[axis] for axis in np.atleast_1d(axes)])) if x.ndim else 1


def _clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    return x if low is None and high is None else np.clip(x, low, high)


def _threshold_backward(grad: Array, x: Array, threshold: float) -> Array:
    return np.where(x <= threshold, 0.0, grad)


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    def calm(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    return calm


_FORWARD = {
    "gelu": _one("gelu", _gelu),
    "silu": _one("silu", pointwise.silu),
    "relu": _one("relu", lambda x: np.maximum(x, 0.0)),
    "sigmoid": _one("sigmoid", pointwise.sigmoid),
    "tanh": _one("tanh", np.tanh),
    "native_dropout": Kernel(kind="dropout", reference=_dropout, given=(("mask", 1),)),
}
_BACKWARD = {
    "gelu_backward": _one("gelu", _gelu_backward),
    "silu_backward": _one("silu", pointwise.silu_backward),
    "threshold_backward": _one("relu", _threshold_backward),
    "sigmoid_backward": _one("sigmoid", lambda grad, out: grad * out * (1 - out)),
    "tanh_backward": _one("tanh", lambda grad, out: grad * (1 - out * out)),
    "native_dropout_backward": _one("dropout", _dropout_backward),
}
_ARITHMETIC = {
    "add": _one("add", lambda x, y, *, alpha=1: x + alpha * y),
    "sub": _one("sub", lambda x, y, *, alpha=1: x - alpha * y),
    "rsub": _one("sub", lambda x, y, alpha=1: y - alpha * x),
    "mul": _one("mul", lambda x, y: x * y),
    "div": _one("div", _div),
    "neg": _one("neg", np.negative),
    "abs": _one("abs", np.abs),
    "exp": _one("exp", _quiet(np.exp)),
    "log": _one("log", _quiet(np.log)),
    "sqrt": _one("sqrt", _quiet(np.sqrt)),
    "rsqrt": _one("rsqrt", _quiet(lambda x: 1 / np.sqrt(x))),
    "reciprocal": _one("reciprocal", _quiet(lambda x: 1 / x)),
    "sin": _one("sin", np.sin),
    "cos": _one("cos", np.cos),
    "pow": _one("pow", _quiet(np.power)),
    "maximum": _one("maximum", np.maximum),
    "minimum": _one("minimum", np.minimum),
    "clamp": _one("clamp", _clamp),
    "where": _one("where", np.where),
    "masked_fill": _one("masked_fill", lambda x, mask, value: np.where(mask, value, x)),
    "addcmul": _one("addcmul", lambda x, y, z, *, value=1: x + value * y * z),
    "addcdiv": _one("addcdiv", lambda x, y, z, *, value=1: x + value * y / z),
    "lerp": _one("lerp", lambda x, y, weight: x + weight * (y - x)),
    "sum": _one("sum", _total(np.sum), _summed),
    "mean": _one("mean", _total(np.mean), _summed),
    "amax": _one("amax", _total(np.max)),
    "amin": _one("amin", _total(np.min)),
    "clone": _one("copy", lambda x, **_: x),
    "copy": _one("copy", lambda x, y, *_: np.broadcast_to(y, x.shape)),
    "_to_copy": _one("copy", lambda x, **_: x),
    "cat": _one("cat", lambda parts, axis=0: np.concatenate([part for part in parts if part.shape != (0,)], axis)),
    "stack": _one("cat", np.stack),
    "zero": _one("fill", np.zeros_like),
    "zeros_like": _one("fill", lambda x, **_: np.zeros(x.shape)),
    "ones_like": _one("fill", lambda x, **_: np.ones(x.shape)),
}  # fmt: skip

POINTWISE = {**_FORWARD, **_BACKWARD, **_ARITHMETIC}
