"""Layer, group, batch and root-mean-square norms, with their gradients and running statistics."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.diagnose.operators.reference.products import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Normed:
    """What a norm gives, and what its backward pass needs: the mean and one over the deviation."""

    out: Array
    mean: Array
    rstd: Array


def layer_norm(x: Array, axes: int, weight: Array | None, bias: Array | None, eps: float) -> Normed:
    """Over the last ``axes`` dimensions; epsilon is added to the variance, below the root."""
    over = tuple(range(-axes, 0))
    mean, variance = x.mean(axis=over, keepdims=True), x.var(axis=over, keepdims=True)
    rstd = 1 / np.sqrt(variance + eps)
    return Normed(out=_scaled((x - mean) * rstd, weight, bias), mean=mean, rstd=rstd)


def layer_norm_backward(
    grad: Array, x: Array, axes: int, mean: Array, rstd: Array, weight: Array | None
) -> tuple[Array, Array, Array]:
    over, batch = tuple(range(-axes, 0)), tuple(range(x.ndim - axes))
    normed = (x - mean) * rstd
    inner = grad if weight is None else grad * weight
    return _through(inner, normed, rstd, over), (grad * normed).sum(axis=batch), grad.sum(axis=batch)


def rms_norm(x: Array, axes: int, weight: Array | None, eps: float) -> Normed:
    over = tuple(range(-axes, 0))
    rstd = 1 / np.sqrt((x * x).mean(axis=over, keepdims=True) + eps)
    return Normed(out=_scaled(x * rstd, weight, None), mean=np.zeros_like(rstd), rstd=rstd)


def rms_norm_backward(grad: Array, x: Array, axes: int, rstd: Array, weight: Array | None) -> tuple[Array, Array]:
    over = tuple(range(-axes, 0))
    normed = x * rstd
    inner = grad if weight is None else grad * weight
    grad_x = rstd * (inner - normed * (inner * normed).mean(axis=over, keepdims=True))
    return grad_x, (grad * normed).sum(axis=tuple(range(x.ndim - axes)))


def group_norm(x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float) -> Normed:
    """(n, c, …) in groups of channels; mean and rstd are (n, groups)."""
    inner = layer_norm(x.reshape(len(x), groups, -1), 1, None, None, eps)
    out = _scaled(inner.out.reshape(x.shape), _scale_of(weight, x), _scale_of(bias, x))
    return Normed(out=out, mean=inner.mean[..., 0], rstd=inner.rstd[..., 0])


def group_norm_backward(
    grad: Array, x: Array, groups: int, mean: Array, rstd: Array, weight: Array | None
) -> tuple[Array, Array, Array]:
    grouped = (len(x), groups, -1)
    normed = (x.reshape(grouped) - mean[..., None]) * rstd[..., None]
    scale = _scale_of(weight, x)
    inner = (grad if scale is None else grad * scale).reshape(grouped)
    grad_x = _through(inner, normed, rstd[..., None], (-1,)).reshape(x.shape)
    rest = (0, *range(2, x.ndim))
    return grad_x, (grad * normed.reshape(x.shape)).sum(axis=rest), grad.sum(axis=rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStatistics:
    """What batch norm keeps over steps. ``momentum`` is the weight of the new value, the variance is unbiased."""

    mean: Array
    variance: Array

    def updated(self, x: Array, momentum: float) -> "RunningStatistics":
        rest = (0, *range(2, x.ndim))
        count = x.size // x.shape[1]
        unbiased = x.var(axis=rest) * count / max(count - 1, 1)
        return RunningStatistics(
            mean=(1 - momentum) * self.mean + momentum * x.mean(axis=rest),
            variance=(1 - momentum) * self.variance + momentum * unbiased,
        )


def batch_norm(
    x: Array, weight: Array | None, bias: Array | None, running: RunningStatistics | None, eps: float
) -> Normed:
    """By channel (axis 1): with the statistics of the batch, or with ``running`` ones."""
    rest = (0, *range(2, x.ndim))
    mean, variance = (running.mean, running.variance) if running else (x.mean(axis=rest), x.var(axis=rest))
    rstd = 1 / np.sqrt(variance + eps)
    normed = (x - _by_channel(mean, x)) * _by_channel(rstd, x)
    return Normed(out=_scaled(normed, _scale_of(weight, x), _scale_of(bias, x)), mean=mean, rstd=rstd)


def batch_norm_backward(
    grad: Array, x: Array, weight: Array | None, mean: Array, rstd: Array, *, training: bool
) -> tuple[Array, Array, Array]:
    rest = (0, *range(2, x.ndim))
    wide = _by_channel(rstd, x)
    normed = (x - _by_channel(mean, x)) * wide
    scale = _scale_of(weight, x)
    inner = grad if scale is None else grad * scale
    grad_x = _through(inner, normed, wide, rest) if training else inner * wide
    return grad_x, (grad * normed).sum(axis=rest), grad.sum(axis=rest)


def _through(inner: Array, normed: Array, rstd: Array, over: Sequence[int]) -> Array:
    """Gradient with respect to what was centred and scaled over the axes ``over``."""
    axes = tuple(over)
    count = math.prod(inner.shape[axis] for axis in axes)
    mean = inner.sum(axis=axes, keepdims=True) / count
    along = (inner * normed).sum(axis=axes, keepdims=True) / count
    grad: Array = rstd * (inner - mean - normed * along)
    return grad


def _by_channel(values: Array, x: Array) -> Array:
    return values.reshape(1, -1, *(1 for _ in x.shape[2:]))


def _scale_of(values: Array | None, x: Array) -> Array | None:
    return None if values is None else _by_channel(values, x)


def _scaled(normed: Array, weight: Array | None, bias: Array | None) -> Array:
    out = normed if weight is None else normed * weight
    return out if bias is None else out + bias
