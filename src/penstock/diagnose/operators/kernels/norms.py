"""Calls of norms. Batch norm also writes its running statistics, which its older schemas do not say."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.diagnose.operators.kernels.kernel import Expected, Kernel
from penstock.diagnose.operators.reference import norms
from penstock.diagnose.operators.reference.norms import Normed, RunningStatistics
from penstock.diagnose.operators.reference.products import Array


def _asked(values: Sequence[Array], wanted: Sequence[bool]) -> Expected:
    return [value if asked else None for value, asked in zip(values, wanted, strict=True)]


def _layer_norm(x: Array, over: Sequence[int], weight: Array | None, bias: Array | None, eps: float) -> Expected:
    seen = norms.layer_norm(x, len(over), weight, bias, eps)
    return seen.out, seen.mean, seen.rstd


def _layer_norm_backward(
    grad: Array, x: Array, over: Sequence[int], mean: Array, rstd: Array, weight: Array | None, _bias: Any,
    wanted: Sequence[bool],
) -> Expected:  # fmt: skip
    return _asked(norms.layer_norm_backward(grad, x, len(over), mean, rstd, weight), wanted)


def _rms_norm(x: Array, over: Sequence[int], weight: Array | None, eps: float | None) -> Expected:
    if eps is None:
        return None, None
    seen = norms.rms_norm(x, len(over), weight, eps)
    return seen.out, seen.rstd


def _rms_norm_backward(
    grad: Array, x: Array, over: Sequence[int], rstd: Array, weight: Array | None, wanted: Sequence[bool]
) -> Expected:
    return _asked(norms.rms_norm_backward(grad, x, len(over), rstd, weight), wanted)


def _group_norm(
    x: Array, weight: Array | None, bias: Array | None, n: int, c: int, _area: int, groups: int, eps: float
) -> Expected:
    seen = norms.group_norm(x.reshape(n, c, *x.shape[2:]), groups, weight, bias, eps)
    return seen.out.reshape(x.shape), seen.mean, seen.rstd


def _group_norm_backward(
    grad: Array, x: Array, mean: Array, rstd: Array, weight: Array | None, _n: int, _c: int, _area: int, groups: int,
    wanted: Sequence[bool],
) -> Expected:  # fmt: skip
    return _asked(norms.group_norm_backward(grad, x, groups, mean, rstd, weight), wanted)


def _batch_norm(
    x: Array, weight: Array | None, bias: Array | None, mean: Array | None, variance: Array | None, training: bool,
    momentum: float, eps: float, *_: Any,
) -> Expected:  # fmt: skip
    running = None if mean is None or variance is None else RunningStatistics(mean=mean, variance=variance)
    seen = norms.batch_norm(x, weight, bias, None if training else running, eps)
    saved: Sequence[Array | None] = (seen.mean, seen.rstd) if training else (None, None)
    if running is None:
        return seen.out, *saved, None, None
    after = running.updated(x, momentum) if training else running
    return seen.out, *saved, after.mean, after.variance


def _cudnn_batch_norm(*arguments: Any) -> Expected:
    out, mean, rstd, *running = _batch_norm(*arguments)
    return out, mean, rstd, None, *running


def _batch_norm_backward(
    grad: Array, x: Array, weight: Array | None, mean: Array | None, variance: Array | None, saved_mean: Array | None,
    saved_rstd: Array | None, training: bool, eps: float, wanted: Sequence[bool],
) -> Expected:  # fmt: skip
    seen = _used(x, mean, variance, saved_mean, saved_rstd, training, eps)
    return _asked(norms.batch_norm_backward(grad, x, weight, seen.mean, seen.rstd, training=training), wanted)


def _cudnn_batch_norm_backward(
    x: Array, grad: Array, weight: Array, _mean: Any, _variance: Any, saved_mean: Array, saved_rstd: Array, _eps: float,
    _reserve: Any,
) -> Expected:  # fmt: skip
    return norms.batch_norm_backward(grad, x, weight, saved_mean, saved_rstd, training=True)


def _used(
    x: Array, mean: Array | None, variance: Array | None, saved_mean: Array | None, saved_rstd: Array | None,
    training: bool, eps: float,
) -> Normed:  # fmt: skip
    """The statistics that the forward pass went by."""
    if training and saved_mean is not None and saved_rstd is not None:
        return Normed(out=x, mean=saved_mean, rstd=saved_rstd)
    assert mean is not None
    assert variance is not None
    return Normed(out=x, mean=mean, rstd=1 / np.sqrt(variance + eps))


def _by_channel(x: Array, *_: Any) -> int:
    return int(x.size // x.shape[1])


def _whole(x: Array, *_: Any) -> int:
    return int(x.size)


def _row(_x: Array, over: Sequence[int], *_: Any) -> int:
    return int(np.prod(over))


_RUNNING = (3, 4)
NORMS = {
    "native_layer_norm": Kernel(kind="layer_norm", reference=_layer_norm, length=_row),
    "native_layer_norm_backward": Kernel(kind="layer_norm", reference=_layer_norm_backward, length=_whole),
    "_fused_rms_norm": Kernel(kind="rms_norm", reference=_rms_norm, length=_row),
    "_fused_rms_norm_backward": Kernel(kind="rms_norm", reference=_rms_norm_backward, length=_whole),
    "native_group_norm": Kernel(kind="group_norm", reference=_group_norm, length=_by_channel),
    "native_group_norm_backward": Kernel(kind="group_norm", reference=_group_norm_backward, length=_whole),
    "native_batch_norm": Kernel(kind="batch_norm", reference=_batch_norm, length=_by_channel, changes=_RUNNING),
    "_native_batch_norm_legit": Kernel(kind="batch_norm", reference=_batch_norm, length=_by_channel),
    "native_batch_norm_backward": Kernel(kind="batch_norm", reference=_batch_norm_backward, length=_by_channel),
    "cudnn_batch_norm": Kernel(kind="batch_norm", reference=_cudnn_batch_norm, length=_by_channel, changes=_RUNNING),
    "cudnn_batch_norm_backward": Kernel(
        kind="batch_norm", reference=_cudnn_batch_norm_backward, length=_by_channel
    ),
}  # fmt: skip
