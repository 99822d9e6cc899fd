"""Cases of matrix products and convolutions."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock.diagnose.operators.reference import products
from penstock.diagnose.operators.reference.products import Array, ConvolutionShape
from penstock.diagnose.operators.suite.case import Answer, Arrays, Case, numbers


def product_cases() -> Iterator[Case]:
    import torch.nn.functional as F  # noqa: N812

    yield _matmul("matmul", (37, 65), (65, 19))
    yield _matmul("matmul", (1, 257), (257, 1), "a row by a column")
    yield _matmul("bmm", (3, 17, 33), (3, 33, 9))
    yield _matmul("matmul", (2, 1, 5, 8), (3, 8, 7), "broadcast")
    yield _linear()
    yield _convolution(F.conv1d, "conv1d", (2, 6, 31), (8, 6, 5), stride=2, padding=2)
    yield _convolution(F.conv2d, "conv2d", (2, 6, 13, 11), (8, 6, 3, 3), padding=1)
    yield _convolution(F.conv2d, "conv2d", (2, 6, 13, 11), (8, 3, 3, 3), stride=2, dilation=2, groups=2)
    yield _convolution(F.conv2d, "conv2d", (2, 6, 9, 9), (6, 1, 2, 2), stride=3, groups=6)
    yield _convolution(F.conv2d, "conv2d", (3, 5, 7, 7), (4, 5, 1, 1))
    yield _transposed()


def _matmul(operator: str, left: tuple[int, ...], right: tuple[int, ...], variant: str = "") -> Case:
    inputs = {"left": numbers(1, *left), "right": numbers(2, *right)}

    def reference(x: Arrays, grad: Array, _: Any) -> Answer:
        grads = products.matmul_backward(grad, x["left"], x["right"])
        return (x["left"] @ x["right"],), dict(zip(("left", "right"), grads, strict=True))

    return Case(
        operator=operator, variant=variant, inputs=inputs, compute=lambda x: (x["left"] @ x["right"],),
        reference=reference, upstream=numbers(3, *(inputs["left"] @ inputs["right"]).shape), length=max(*left, *right),
        coarse=True,
    )  # fmt: skip


def _linear() -> Case:
    import torch.nn.functional as F  # noqa: N812

    def reference(x: Arrays, grad: Array, _: Any) -> Answer:
        grads = products.linear_backward(grad, x["x"], x["weight"])
        out = products.linear(x["x"], x["weight"], x["bias"])
        return (out,), dict(zip(("x", "weight", "bias"), grads, strict=True))

    return Case(
        operator="linear", inputs={"x": numbers(1, 5, 7, 33), "weight": numbers(2, 21, 33), "bias": numbers(3, 21)},
        compute=lambda x: (F.linear(x["x"], x["weight"], x["bias"]),), reference=reference,
        upstream=numbers(4, 5, 7, 21), length=35, coarse=True,
    )  # fmt: skip


def _convolution(
    function: Any, operator: str, image: tuple[int, ...], kernel: tuple[int, ...], *, stride: int = 1, padding: int = 0,
    dilation: int = 1, groups: int = 1,
) -> Case:  # fmt: skip
    dims = len(image) - 2
    shape = ConvolutionShape(
        stride=(stride,) * dims, padding=(padding,) * dims, dilation=(dilation,) * dims, groups=groups
    )
    inputs = {"x": numbers(1, *image), "weight": numbers(2, *kernel), "bias": numbers(3, kernel[0])}
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

    def reference(x: Arrays, grad: Array, _: Any) -> Answer:
        grads = products.convolution_backward(grad, x["x"], x["weight"], shape)
        out = products.convolution(x["x"], x["weight"], x["bias"], shape)
        return (out,), dict(zip(("x", "weight", "bias"), grads, strict=True))

    told = ", ".join(f"{key} {value}" for key, value in settings.items() if value > (key != "padding"))
    out_size = (image[0], kernel[0], *shape.out_size(image[2:], kernel[2:]))
    return Case(
        operator=operator, variant=told,
        inputs=inputs, compute=lambda x: (function(x["x"], x["weight"], x["bias"], **settings),), reference=reference,
        upstream=numbers(4, *out_size), length=max(int(np.prod(kernel[1:])), int(np.prod(out_size)) // kernel[0]),
        coarse=True,
    )  # fmt: skip


def _transposed() -> Case:
    import torch.nn.functional as F  # noqa: N812

    shape = ConvolutionShape(stride=(2, 2), padding=(1, 1), dilation=(1, 1))

    def reference(x: Arrays, grad: Array, _: Any) -> Answer:
        grads = products.transposed_convolution_backward(grad, x["x"], x["weight"], shape)
        out = products.transposed_convolution(x["x"], x["weight"], x["bias"], shape, (1, 1))
        return (out,), dict(zip(("x", "weight", "bias"), grads, strict=True))

    return Case(
        operator="conv_transpose2d", variant="stride 2, output padding 1",
        inputs={"x": numbers(1, 2, 4, 5, 5), "weight": numbers(2, 4, 6, 3, 3), "bias": numbers(3, 6)},
        compute=lambda x: (
            F.conv_transpose2d(x["x"], x["weight"], x["bias"], stride=2, padding=1, output_padding=1),
        ),
        reference=reference, upstream=numbers(4, 2, 6, 10, 10), length=200, coarse=True,
    )  # fmt: skip
