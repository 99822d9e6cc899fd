"""Calls of softmaxes, losses and lookups."""

from typing import Any

import numpy as np

from penstock.diagnose.operators.kernels.kernel import Expected, Kernel
from penstock.diagnose.operators.reference import losses, pointwise
from penstock.diagnose.operators.reference.losses import Indices
from penstock.diagnose.operators.reference.products import Array


def _softmax(x: Array, axis: int, _to_float: bool) -> Expected:
    return (losses.softmax(x, axis),)


def _softmax_backward(grad: Array, out: Array, axis: int, _dtype: Any) -> Expected:
    return (losses.softmax_backward(grad, out, axis),)


def _log_softmax(x: Array, axis: int, _to_float: bool) -> Expected:
    return (losses.log_softmax(x, axis),)


def _log_softmax_backward(grad: Array, out: Array, axis: int, _dtype: Any) -> Expected:
    return (losses.log_softmax_backward(grad, out, axis),)


def _nll_loss(logs: Array, target: Indices, weight: Array | None, reduction: int, ignored: int) -> Expected:
    return losses.nll_loss(logs, target, weight, reduction, ignored)


def _nll_loss_backward(
    grad: Array, logs: Array, target: Indices, weight: Array | None, reduction: int, ignored: int, _total: Array
) -> Expected:
    return (losses.nll_loss_backward(grad, logs, target, weight, reduction, ignored),)


def _mse_loss(x: Array, target: Array, reduction: int = losses.MEAN) -> Expected:
    squares = (x - target) ** 2
    return (np.asarray({losses.NONE: squares, losses.MEAN: squares.mean(), losses.SUM: squares.sum()}[reduction]),)


def _mse_loss_backward(grad: Array, x: Array, target: Array, reduction: int) -> Expected:
    return (grad * 2 * (x - target) / (x.size if reduction == losses.MEAN else 1),)


def _embedding(table: Array, indices: Indices, *_: Any) -> Expected:
    return (table[indices],)


def _embedding_backward(grad: Array, indices: Indices, rows: int, padding: int, by_frequency: bool) -> Expected:
    return (pointwise.embedding_backward(grad, indices, rows, padding, by_frequency=by_frequency),)


def _along(x: Array, axis: int, *_: Any) -> int:
    return int(x.shape[axis]) if x.ndim else 1


def _along_backward(grad: Array, _out: Array, axis: int, *_: Any) -> int:
    return _along(grad, axis)


def _rows(_x: Array, target: Indices, *_: Any) -> int:
    return int(target.size)


LOSSES = {
    "_softmax": Kernel(kind="softmax", reference=_softmax, length=_along),
    "_softmax_backward_data": Kernel(kind="softmax", reference=_softmax_backward, length=_along_backward),
    "_log_softmax": Kernel(kind="log_softmax", reference=_log_softmax, length=_along),
    "_log_softmax_backward_data": Kernel(kind="log_softmax", reference=_log_softmax_backward, length=_along_backward),
    "nll_loss_forward": Kernel(kind="nll_loss", reference=_nll_loss, length=_rows),
    "nll_loss_backward": Kernel(kind="nll_loss", reference=_nll_loss_backward),
    "nll_loss2d_forward": Kernel(kind="nll_loss", reference=_nll_loss, length=_rows),
    "nll_loss2d_backward": Kernel(kind="nll_loss", reference=_nll_loss_backward),
    "mse_loss": Kernel(kind="mse_loss", reference=_mse_loss, length=_rows),
    "mse_loss_backward": Kernel(kind="mse_loss", reference=_mse_loss_backward),
    "embedding": Kernel(kind="embedding", reference=_embedding),
    "embedding_dense_backward": Kernel(kind="embedding", reference=_embedding_backward, length=_rows),
}
