"""Softmax, its logarithm, negative log likelihood and cross entropy, with their gradients."""

import numpy as np
from numpy.typing import NDArray

from penstock.diagnose.operators.reference.products import Array

Indices = NDArray[np.int64]
NONE, MEAN, SUM = 0, 1, 2
"""How losses of samples become one, as PyTorch numbers it."""


def softmax(x: Array, axis: int) -> Array:
    """A row of nothing but -inf is NaN in frameworks; callers that mask rows away treat it before."""
    with np.errstate(invalid="ignore"):
        raised = np.exp(x - x.max(axis=axis, keepdims=True))
    out: Array = raised / raised.sum(axis=axis, keepdims=True)
    return out


def softmax_backward(grad: Array, out: Array, axis: int) -> Array:
    along: Array = (grad * out).sum(axis=axis, keepdims=True)
    return out * (grad - along)


def log_softmax(x: Array, axis: int) -> Array:
    with np.errstate(invalid="ignore"):
        shifted = x - x.max(axis=axis, keepdims=True)
    out: Array = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return out


def log_softmax_backward(grad: Array, out: Array, axis: int) -> Array:
    total: Array = grad.sum(axis=axis, keepdims=True)
    return grad - np.exp(out) * total


def nll_loss(logs: Array, target: Indices, weight: Array | None, reduction: int, ignored: int) -> tuple[Array, Array]:
    """(n, c, …) and (n, …): the loss, and the sum of the weights that a mean divides by."""
    rows, picked, weights = _picked(logs, target, weight, ignored)
    losses = -np.take_along_axis(rows, picked[:, None], axis=1)[:, 0] * weights
    total = np.asarray(weights.sum())
    if reduction == NONE:
        return losses.reshape(target.shape), np.asarray(0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(losses.sum() / (total if reduction == MEAN else 1.0)), total


def nll_loss_backward(
    grad: Array, logs: Array, target: Indices, weight: Array | None, reduction: int, ignored: int
) -> Array:
    rows, picked, weights = _picked(logs, target, weight, ignored)
    share = weights / weights.sum() if reduction == MEAN else weights
    upstream = grad.reshape(-1) if reduction == NONE else grad
    out = np.zeros_like(rows)
    np.put_along_axis(out, picked[:, None], (-share * upstream)[:, None], axis=1)
    return _as_logs(out, logs)


def cross_entropy(logits: Array, target: Indices, *, smoothing: float = 0.0, ignored: int = -100) -> Array:
    """Mean over the samples that count; smoothing spreads that share of the label evenly over all classes."""
    logs = log_softmax(logits, 1)
    rows, picked, weights = _picked(logs, target, None, ignored)
    right = -np.take_along_axis(rows, picked[:, None], axis=1)[:, 0]
    losses = (1 - smoothing) * right - smoothing * rows.mean(axis=1)
    return np.asarray((losses * weights).sum() / weights.sum())


def cross_entropy_backward(
    grad: Array, logits: Array, target: Indices, *, smoothing: float = 0.0, ignored: int = -100
) -> Array:
    rows, picked, weights = _picked(softmax(logits, 1), target, None, ignored)
    wanted = np.full_like(rows, smoothing / rows.shape[1])
    np.put_along_axis(wanted, picked[:, None], smoothing / rows.shape[1] + 1 - smoothing, axis=1)
    return _as_logs(grad * (rows - wanted) * (weights / weights.sum())[:, None], logits)


def _picked(logs: Array, target: Indices, weight: Array | None, ignored: int) -> tuple[Array, Indices, Array]:
    """Rows of classes, the class of each row and what each row counts."""
    rows = np.moveaxis(logs, 1, -1).reshape(-1, logs.shape[1]) if logs.ndim > 1 else logs.reshape(1, -1)
    flat = target.reshape(-1)
    counts = flat != ignored
    picked = np.where(counts, flat, 0)
    weights = counts.astype(np.float64) if weight is None else np.where(counts, weight[picked], 0.0)
    return rows, picked, weights


def _as_logs(rows: Array, logs: Array) -> Array:
    if logs.ndim == 1:
        return rows.reshape(logs.shape)
    n, c, *rest = logs.shape
    return np.moveaxis(rows.reshape(n, *rest, c), -1, 1)
