"""Calls of matrix products and convolutions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.diagnose.operators.kernels.kernel import Expected, Kernel
from penstock.diagnose.operators.reference import products
from penstock.diagnose.operators.reference.products import Array, ConvolutionShape


def _mm(left: Array, right: Array) -> Expected:
    return (left @ right,)


def _inner(left: Array, _right: Array) -> int:
    return int(left.shape[-1])


def _addmm(bias: Array, left: Array, right: Array, *, beta: float = 1, alpha: float = 1) -> Expected:
    return (beta * bias + alpha * (left @ right),)


def _inner_of_sum(_bias: Array, left: Array, _right: Array, **_: Any) -> int:
    return int(left.shape[-1])


def _linear(x: Array, weight: Array, bias: Array | None = None) -> Expected:
    return (products.linear(x, weight, bias),)


def _shape(
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int, dims: int
) -> ConvolutionShape:
    def wide(values: Sequence[int]) -> tuple[int, ...]:
        return tuple(values) if len(values) == dims else tuple(values) * dims

    return ConvolutionShape(stride=wide(stride), padding=wide(padding), dilation=wide(dilation), groups=groups)


def _convolution(
    x: Array, weight: Array, bias: Array | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, extra: Sequence[int], groups: int,
) -> Expected:  # fmt: skip
    shape = _shape(stride, padding, dilation, groups, weight.ndim - 2)
    if transposed:
        return (products.transposed_convolution(x, weight, bias, shape, extra),)
    return (products.convolution(x, weight, bias, shape),)


def _convolution_backward(
    grad: Array, x: Array, weight: Array, _bias_sizes: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, _extra: Sequence[int], groups: int, wanted: Sequence[bool],
) -> Expected:  # fmt: skip
    shape = _shape(stride, padding, dilation, groups, weight.ndim - 2)
    backward = products.transposed_convolution_backward if transposed else products.convolution_backward
    return [each if asked else None for each, asked in zip(backward(grad, x, weight, shape), wanted, strict=True)]


def _taps(_x: Array, weight: Array, *_: Any) -> int:
    return int(np.prod(weight.shape[1:]))


def _positions(grad: Array, _x: Array, weight: Array, *_: Any) -> int:
    return int(max(grad.size // grad.shape[1], np.prod(weight.shape) // weight.shape[1]))


PRODUCTS = {
    "mm": Kernel(kind="matmul", reference=_mm, length=_inner),
    "bmm": Kernel(kind="bmm", reference=_mm, length=_inner),
    "mv": Kernel(kind="matmul", reference=_mm, length=_inner),
    "dot": Kernel(kind="matmul", reference=_mm, length=_inner),
    "addmm": Kernel(kind="linear", reference=_addmm, length=_inner_of_sum),
    "baddbmm": Kernel(kind="bmm", reference=_addmm, length=_inner_of_sum),
    "linear": Kernel(kind="linear", reference=_linear, length=lambda x, *_: int(x.shape[-1])),
    "convolution": Kernel(kind="convolution", reference=_convolution, length=_taps),
    "convolution_backward": Kernel(kind="convolution", reference=_convolution_backward, length=_positions),
}
