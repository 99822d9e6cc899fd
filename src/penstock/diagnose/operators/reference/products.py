"""Matrix products and convolutions, with their gradients."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def matmul_backward(grad: Array, left: Array, right: Array) -> tuple[Array, Array]:
    """Of ``left @ right`` with batches broadcast: (…, m, k) @ (…, k, n)."""
    return summed_to(grad @ _turned(right), left.shape), summed_to(_turned(left) @ grad, right.shape)


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """(…, i) by (o, i) to (…, o)."""
    out: Array = x @ weight.T
    return out if bias is None else out + bias


def linear_backward(grad: Array, x: Array, weight: Array) -> tuple[Array, Array, Array]:
    rows, inputs = grad.reshape(-1, grad.shape[-1]), x.reshape(-1, x.shape[-1])
    return grad @ weight, rows.T @ inputs, rows.sum(axis=0)


def summed_to(grad: Array, shape: Sequence[int]) -> Array:
    """The gradient of something that was broadcast from ``shape``."""
    extra = grad.ndim - len(shape)
    grad = grad.sum(axis=tuple(range(extra)))
    widened = tuple(axis for axis, size in enumerate(shape) if size == 1 and grad.shape[axis] != 1)
    out: Array = grad.sum(axis=widened, keepdims=True)
    return out


def _turned(matrix: Array) -> Array:
    return np.swapaxes(matrix, -1, -2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionShape:
    """How a kernel moves over an image of any number of dimensions."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1

    def out_size(self, image: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
        return tuple(
            (size + 2 * pad - step * (width - 1) - 1) // stride + 1
            for size, pad, step, width, stride in zip(
                image, self.padding, self.dilation, kernel, self.stride, strict=True
            )
        )

    def taps(self, kernel: Sequence[int], out: Sequence[int]) -> Iterator[tuple[Any, Any]]:
        """Indices of each position in the kernel, and of the part of the padded image that it is multiplied with."""
        rows = slice(None), slice(None)
        for tap in product(*map(range, kernel)):
            first = [at * step for at, step in zip(tap, self.dilation, strict=True)]
            part = tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(first, out, self.stride, strict=True))
            yield (*rows, *tap), (*rows, *part)

    def padded(self, x: Array) -> Array:
        return np.pad(x, ((0, 0), (0, 0), *((pad, pad) for pad in self.padding)))

    def cropped(self, x: Array, image: Sequence[int]) -> Array:
        inner = tuple(slice(pad, pad + size) for pad, size in zip(self.padding, image, strict=True))
        return x[(slice(None), slice(None), *inner)]


def convolution(x: Array, weight: Array, bias: Array | None, shape: ConvolutionShape) -> Array:
    """(n, c, *image) by (o, c / groups, *kernel) to (n, o, *out)."""
    kernel = weight.shape[2:]
    out_size, padded = shape.out_size(x.shape[2:], kernel), shape.padded(x)
    out = np.zeros((len(x), len(weight), *out_size))
    for tap, part in shape.taps(kernel, out_size):
        out += _by_group(padded[part], weight[tap], shape)
    return out if bias is None else out + bias.reshape(-1, *(1 for _ in kernel))


def convolution_backward(grad: Array, x: Array, weight: Array, shape: ConvolutionShape) -> tuple[Array, Array, Array]:
    """With respect to the image, the weight and the bias."""
    kernel, out_size = weight.shape[2:], grad.shape[2:]
    padded = shape.padded(x)
    grad_x, grad_weight = np.zeros_like(padded), np.zeros_like(weight)
    for tap, part in shape.taps(kernel, out_size):
        grad_x[part] += _by_group_turned(grad, weight[tap], shape)
        grad_weight[tap] = _outer_by_group(grad, padded[part], shape)
    return shape.cropped(grad_x, x.shape[2:]), grad_weight, grad.sum(axis=(0, *range(2, grad.ndim)))


def transposed_convolution(
    x: Array, weight: Array, bias: Array | None, shape: ConvolutionShape, extra: Sequence[int]
) -> Array:
    """The gradient of a convolution with respect to its image, as an operator: (n, c, …) by (c, o / groups, …)."""
    kernel = weight.shape[2:]
    image = tuple(
        (size - 1) * stride - 2 * pad + step * (width - 1) + 1 + more
        for size, stride, pad, step, width, more in zip(
            x.shape[2:], shape.stride, shape.padding, shape.dilation, kernel, extra, strict=True
        )
    )
    channels = weight.shape[1] * shape.groups
    empty = np.zeros((len(x), channels, *image))
    out, _, _ = convolution_backward(x, empty, weight, shape)
    return out if bias is None else out + bias.reshape(-1, *(1 for _ in kernel))


def transposed_convolution_backward(
    grad: Array, x: Array, weight: Array, shape: ConvolutionShape
) -> tuple[Array, Array, Array]:
    _, grad_weight, _ = convolution_backward(x, grad, weight, shape)
    return convolution(grad, weight, None, shape), grad_weight, grad.sum(axis=(0, *range(2, grad.ndim)))


def _by_group(image: Array, weight: Array, shape: ConvolutionShape) -> Array:
    """(n, c, *p) by (o, c / g) to (n, o, *p)."""
    n, c, *p = image.shape
    o, g = len(weight), shape.groups
    out: Array = np.einsum(
        "gok,ngkp->ngop", weight.reshape(g, o // g, -1), image.reshape(n, g, c // g, -1), optimize=True
    )
    return out.reshape(n, o, *p)


def _by_group_turned(grad: Array, weight: Array, shape: ConvolutionShape) -> Array:
    n, o, *p = grad.shape
    g, inner = shape.groups, weight.shape[1]
    grouped = weight.reshape(g, o // g, inner)
    out: Array = np.einsum("gok,ngop->ngkp", grouped, grad.reshape(n, g, o // g, -1), optimize=True)
    return out.reshape(n, g * inner, *p)


def _outer_by_group(grad: Array, image: Array, shape: ConvolutionShape) -> Array:
    n, o = grad.shape[:2]
    g, c = shape.groups, image.shape[1]
    left, right = grad.reshape(n, g, o // g, -1), image.reshape(n, g, c // g, -1)
    out: Array = np.einsum("ngop,ngkp->gok", left, right, optimize=True)
    return out.reshape(o, c // g)
