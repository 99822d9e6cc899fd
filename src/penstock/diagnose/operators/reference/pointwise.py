"""Activations, dropout with a given mask, embedding: operators without arithmetic between neighbours."""

import math

import numpy as np
from numpy.typing import NDArray

from penstock.diagnose.operators.reference.products import Array

_TANH_CUBIC = 0.044715
_ERF = np.frompyfunc(math.erf, 1, 1)


def gelu(x: Array, *, tanh: bool = False) -> Array:
    """Exact by the error function, or the approximation by tanh."""
    bent: Array = np.tanh(_inner(x)) if tanh else _erf(x / math.sqrt(2))
    return np.asarray(0.5 * x * (1 + bent), dtype=np.float64)


def gelu_backward(grad: Array, x: Array, *, tanh: bool = False) -> Array:
    if tanh:
        high: Array = np.tanh(_inner(x))
        slope = math.sqrt(2 / math.pi) * (1 + 3 * _TANH_CUBIC * x * x)
        return grad * (0.5 * (1 + high) + 0.5 * x * (1 - high * high) * slope)
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return grad * (0.5 * (1 + _erf(x / math.sqrt(2))) + x * density)


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def silu_backward(grad: Array, x: Array) -> Array:
    gate = sigmoid(x)
    return grad * gate * (1 + x * (1 - gate))


def sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    out: Array = np.where(x >= 0, 1.0, small) / (1 + small)
    return out


def dropout(x: Array, mask: NDArray[np.bool_], keep: float) -> Array:
    """What stays is scaled by 1 / keep, so that the expectation does too."""
    return np.where(mask, x / keep, 0.0) if keep > 0 else np.zeros_like(x)


def embedding_backward(
    grad: Array, indices: NDArray[np.int64], rows: int, padding: int = -1, *, by_frequency: bool = False
) -> Array:
    """Rows that were looked up several times add up; the padding row learns nothing."""
    flat, width = indices.reshape(-1), grad.shape[-1]
    counted = np.bincount(flat, minlength=rows)[flat] if by_frequency else np.ones(len(flat))
    out = np.zeros((rows, width))
    wanted = (flat != padding)[:, None]
    np.add.at(out, flat, np.where(wanted, grad.reshape(-1, width) / counted[:, None], 0.0))
    return out


def _inner(x: Array) -> Array:
    return math.sqrt(2 / math.pi) * (x + _TANH_CUBIC * x**3)


def _erf(x: Array) -> Array:
    return np.asarray(_ERF(x), dtype=np.float64)
