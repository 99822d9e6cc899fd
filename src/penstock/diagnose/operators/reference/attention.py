"""Scaled dot-product attention: causal, masked, with fewer key heads than query heads."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.diagnose.operators.reference.losses import softmax, softmax_backward
from penstock.diagnose.operators.reference.products import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShape:
    """``bias`` is added to the scores: 0 where a query may look, -inf where not, or any number."""

    causal: bool = False
    scale: float | None = None
    bias: Array | None = None

    def scores(self, query: Array, key: Array) -> Array:
        """(…, q, d) and (…, k, d) to (…, q, k); a causal query i sees keys 0..i."""
        scale = self.scale if self.scale is not None else 1 / math.sqrt(query.shape[-1])
        scores: Array = query @ np.swapaxes(key, -1, -2) * scale
        if self.causal:
            scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
        return scores if self.bias is None else scores + self.bias


def bias_of(mask: NDArray[Any] | None) -> Array | None:
    """Masks of booleans say where a query may look."""
    if mask is None or mask.dtype != np.bool_:
        return mask
    return np.where(mask, 0.0, -np.inf)


def attention(query: Array, key: Array, value: Array, shape: AttentionShape) -> Array:
    key, value = _as_wide(key, query), _as_wide(value, query)
    return _weights(query, key, shape) @ value


def attention_backward(
    grad: Array, query: Array, key: Array, value: Array, shape: AttentionShape
) -> tuple[Array, Array, Array]:
    wide_key, wide_value = _as_wide(key, query), _as_wide(value, query)
    weights = _weights(query, wide_key, shape)
    scale = shape.scale if shape.scale is not None else 1 / math.sqrt(query.shape[-1])
    grad_scores = softmax_backward(grad @ np.swapaxes(wide_value, -1, -2), weights, -1) * scale
    grad_key = np.swapaxes(grad_scores, -1, -2) @ query
    grad_value = np.swapaxes(weights, -1, -2) @ grad
    return grad_scores @ wide_key, _as_narrow(grad_key, key), _as_narrow(grad_value, value)


def log_sum_exp(query: Array, key: Array, shape: AttentionShape) -> Array:
    """What kernels keep for the backward pass instead of the weights: (…, q)."""
    scores = shape.scores(query, _as_wide(key, query))
    top = scores.max(axis=-1, keepdims=True)
    total: Array = top + np.log(np.exp(scores - top).sum(axis=-1, keepdims=True))
    return total[..., 0]


def _weights(query: Array, key: Array, shape: AttentionShape) -> Array:
    """A query that may look nowhere gets nothing: kernels return zeros there."""
    scores = shape.scores(query, key)
    blind = np.isneginf(scores).all(axis=-1, keepdims=True)
    return np.where(blind, 0.0, softmax(np.where(blind, 0.0, scores), -1))


def _as_wide(heads: Array, query: Array) -> Array:
    """Grouped queries: each key head serves several query heads (axis 1)."""
    return heads if heads.ndim < 4 else np.repeat(heads, query.shape[1] // heads.shape[1], axis=1)


def _as_narrow(grad: Array, heads: Array) -> Array:
    if grad.shape == heads.shape:
        return grad
    n, h, *rest = heads.shape
    narrow: Array = grad.reshape(n, h, -1, *rest).sum(axis=2)
    return narrow
