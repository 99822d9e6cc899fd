"""Random layers, each at a size a device does in at most a few milliseconds.

What is drawn follows what networks use: windows of 1 and 3 pixels mostly, widths that are round, pictures that were
halved a few times; and beside that anything else, rarely.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from random import Random

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from penstock.predict.lab.networks.random_sizes import any_batch, any_vocabulary, log_uniform, rounded

_RATES = {"bf16": 3e14, "fp16": 3e14, "tf32": 1.2e14, "fp32": 3e13}
_MOST_SECONDS = 1.5e-3
_MOST_ELEMENTS = 6e7
_SIDES = (7, 8, 14, 16, 28, 32, 56, 64, 112, 128, 224)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer and the shape of its input, batch first; what it does is proportional to the batch."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    out: float
    """Elements of its result for the whole batch."""
    flops: float = 0.0
    words: int = 0
    """Rows of the table its input points into; 0 where the input is floating point."""

    @property
    def bytes(self) -> float:
        """Held at once, roughly: input and result, each twice, and their gradients."""
        return 12.0 * (prod(self.shape) + self.out)

    def example(self) -> Tensor:
        return torch.randint(self.words, self.shape) if self.words else torch.randn(self.shape)

    def halved(self) -> "Layer":
        batch = max(1, self.shape[0] // 2)
        share = batch / self.shape[0]
        return replace(self, shape=(batch, *self.shape[1:]), out=self.out * share, flops=self.flops * share)


def any_layer(rng: Random, precision: str, kinds: "Mapping[Kind, float] | None" = None) -> Layer:
    """One of some kinds, by how often each is wanted, at a batch that is not too expensive."""
    kinds = kinds or COMMON_KINDS
    layer = rng.choices(list(kinds), list(kinds.values()))[0](rng)
    while layer.shape[0] > 1 and _too_large(layer, precision):
        layer = layer.halved()
    return layer if not _too_large(layer, precision) else any_layer(rng, precision, kinds)


def _too_large(layer: Layer, precision: str) -> bool:
    return layer.flops > _MOST_SECONDS * _RATES[precision] or prod(layer.shape) + layer.out > _MOST_ELEMENTS


def any_channels(rng: Random, low: float, high: float) -> int:
    multiple = rng.choices([64, 32, 16, 8, 4, 2, 1], [0.3, 0.24, 0.2, 0.16, 0.05, 0.03, 0.02])[0]
    return rounded(log_uniform(rng, low, high), multiple)


def _side(rng: Random, largest: int) -> int:
    if rng.random() < 0.55:
        return rng.choice([side for side in _SIDES if side <= largest])
    return round(log_uniform(rng, 3, largest))


def any_picture(rng: Random, channels: int) -> tuple[int, int]:
    """Wide layers have small pictures; now and then one is not square, or a single pixel as behind a pooling."""
    if rng.random() < 0.03:
        return 1, 1
    height = _side(rng, 256 if channels <= 96 else 112 if channels <= 384 else 64)
    return height, height if rng.random() < 0.93 else _side(rng, 128)


def _window(rng: Random) -> tuple[int, int, int]:
    """Height, width and stride."""
    kind = rng.choices(["point", "three", "large", "flat", "patch"], [0.52, 0.34, 0.06, 0.05, 0.03])[0]
    stride = rng.choices([1, 2, 3, 4], [0.8, 0.17, 0.01, 0.02])[0]
    if kind == "point":
        return 1, 1, stride
    if kind == "three":
        return 3, 3, stride
    if kind == "large":
        side = rng.choice([5, 5, 5, 7, 7, 9, 11])
        return side, side, stride
    if kind == "flat":
        return rng.choice([(1, 3, 1), (3, 1, 1), (1, 7, 1), (7, 1, 1), (1, 5, 1), (5, 1, 1)])
    side = rng.choice([2, 2, 2, 4, 4, 8, 14, 16, 32])
    return side, side, side


def _padding(rng: Random, window: tuple[int, int]) -> tuple[int, int]:
    if rng.random() < 0.85:
        return window[0] // 2, window[1] // 2
    return (0, 0) if rng.random() < 0.7 else (rng.randint(0, window[0] // 2), rng.randint(0, window[1] // 2))


def _convolution(rng: Random) -> Layer:
    inward = 3 if rng.random() < 0.04 else any_channels(rng, 8, 2048)
    outward = any_channels(rng, max(8, inward / 8), min(2560, inward * 8))
    *window, stride = _window(rng)
    if stride == window[0] > 2 and rng.random() < 0.6:
        inward = 3
    return _convolved(rng, inward, outward, (window[0], window[1]), stride, 1)


def _grouped_convolution(rng: Random) -> Layer:
    """One channel a group mostly, as in mobile networks; else 4 to 64."""
    side, stride = rng.choices([3, 5, 7, 9], [0.55, 0.25, 0.17, 0.03])[0], rng.choice([1, 1, 1, 2])
    if rng.random() < 0.6:
        channels = any_channels(rng, 16, 2048)
        return _convolved(rng, channels, channels, (side, side), stride, channels)
    groups = rng.choice([2, 3, 4, 8, 8, 16, 16, 32, 32, 64])
    inward, outward = (groups * any_channels(rng, 4, min(256, 2048 // groups)) for _ in range(2))
    side = rng.choices([1, 3, 5], [0.08, 0.8, 0.12])[0]
    return _convolved(rng, inward, inward if rng.random() < 0.7 else outward, (side, side), stride, groups)


def _convolved(
    rng: Random, inward: int, outward: int, window: tuple[int, int], stride: int, groups: int
) -> Layer:  # fmt: skip
    height, width = any_picture(rng, max(inward, outward))
    if stride >= 4:
        height = width = rng.choice([64, 96, 128, 160, 192, 224, 256, 288, 384])
    padding = (0, 0) if stride == window[0] > 1 else _padding(rng, window)
    dilation = rng.choice([2, 2, 4, 6, 12]) if window == (3, 3) and stride == 1 and rng.random() < 0.03 else 1
    padding = (dilation, dilation) if dilation > 1 else padding
    sides = [
        (side + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
        for side, pad, kernel in zip((height, width), padding, window, strict=True)
    ]
    if min(sides) < 1:
        return _convolved(rng, inward, outward, window, stride, groups)
    batch = any_batch(rng, 4, 400) if rng.random() < 0.9 else rng.randint(1, 4)
    out = batch * outward * prod(sides)
    layer = partial(
        nn.Conv2d, inward, outward, window, stride, padding, dilation, groups, bias=rng.random() < 0.3
    )  # fmt: skip
    flops = 2.0 * out * inward / groups * prod(window)
    return Layer(build=layer, shape=(batch, inward, height, width), out=out, flops=flops)


def _linear(rng: Random) -> Layer:
    inward, outward = (any_channels(rng, 16, 20000) for _ in range(2))
    tokens = any_batch(rng, 16, 60000)
    if rng.random() < 0.08:
        outward = any_vocabulary(rng)
    build = partial(nn.Linear, inward, outward, bias=rng.random() < 0.6)
    return Layer(build=build, shape=(tokens, inward), out=tokens * outward, flops=2.0 * tokens * inward * outward)


class _Product(nn.Module):
    """A product per matrix of a batch, as in attention written by hand."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows

    def forward(self, value: Tensor) -> Tensor:
        return torch.bmm(value[:, : self.rows], value[:, self.rows :].transpose(1, 2))


def _product(rng: Random) -> Layer:
    rows, columns = (rounded(log_uniform(rng, 16, 4096), rng.choice([1, 8, 64])) for _ in range(2))
    if rng.random() < 0.5:
        columns = rows
    depth, batch = any_channels(rng, 16, 1024), any_batch(rng, 2, 1024)
    out = batch * rows * columns
    return Layer(build=partial(_Product, rows), shape=(batch, rows + columns, depth), out=out, flops=2.0 * out * depth)


def _soft(rng: Random) -> Layer:
    """Over a vocabulary, or over the keys of an attention."""
    kind = rng.choice([nn.LogSoftmax, nn.LogSoftmax, nn.Softmax])
    few, many = (2, 6000) if kind is nn.Softmax or rng.random() < 0.3 else (1000, 160000)
    columns = any_vocabulary(rng) if rng.random() < 0.3 and many > 6000 else rounded(
        log_uniform(rng, few, many), rng.choice([1, 2, 8, 64])
    )  # fmt: skip
    rows = max(1, round(log_uniform(rng, 64, 3e5)))
    return Layer(build=partial(kind, -1), shape=(rows, columns), out=rows * columns)


class _Joined(nn.Module):
    """Tensors side by side, as where branches meet."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.sizes = sizes

    def forward(self, value: Tensor) -> Tensor:
        return torch.cat([part.relu() for part in torch.split(value, self.sizes, dim=1)], dim=1)


def _join(rng: Random) -> Layer:
    sizes = [any_channels(rng, 8, 512) for _ in range(rng.choice([2, 2, 2, 3, 4, 4, 6, 9, 16]))]
    height, width = any_picture(rng, sum(sizes))
    batch = any_batch(rng, 4, 400)
    return Layer(
        build=partial(_Joined, sizes), shape=(batch, sum(sizes), height, width), out=batch * sum(sizes) * height * width
    )


def _margin(rng: Random) -> Layer:
    channels = any_channels(rng, 8, 2048)
    height, width = any_picture(rng, channels)
    batch, wide = any_batch(rng, 4, 400), rng.randint(1, 3)
    out = batch * channels * (height + 2 * wide) * (width + 2 * wide)
    return Layer(build=partial(nn.ZeroPad2d, wide), shape=(batch, channels, height, width), out=out)


def _embedding(rng: Random) -> Layer:
    table = rng.choice([any_vocabulary(rng), round(log_uniform(rng, 2, 5000))])
    columns = any_channels(rng, 32, 8192)
    rows = round(log_uniform(rng, 128, 60000))
    if table * columns > _MOST_ELEMENTS * 5:
        return _embedding(rng)
    return Layer(build=partial(nn.Embedding, table, columns), shape=(rows,), out=rows * columns, words=table)


def _pool(rng: Random) -> Layer:
    channels = any_channels(rng, 8, 2048)
    height, width = any_picture(rng, channels)
    side = rng.choice([2, 2, 3, 3, 3, 5])
    stride, padding = rng.choice([(2, 0), (2, side // 2), (1, side // 2), (2, side // 2)])
    build: Callable[[], nn.Module] = partial(rng.choice([nn.MaxPool2d, nn.AvgPool2d]), side, stride, padding)
    if rng.random() < 0.45:
        build = partial(nn.AdaptiveAvgPool2d, rng.choice([1, 1, 1, 1, 2, 6, 7]))
    batch = any_batch(rng, 4, 400)
    if min(height, width) < side:
        return _pool(rng)
    return Layer(build=build, shape=(batch, channels, height, width), out=batch * channels * height * width)


def _norm(rng: Random) -> Layer:
    if rng.random() < 0.6:
        channels = any_channels(rng, 8, 2048)
        height, width = any_picture(rng, channels)
        batch = any_batch(rng, 4, 400)
        shape = (batch, channels, height, width)
        whole: Callable[[], nn.Module] = partial(nn.GroupNorm, 1, channels)
        build = partial(nn.BatchNorm2d, channels) if rng.random() < 0.7 else whole
        return Layer(build=build, shape=shape, out=prod(shape))
    columns, rows = any_channels(rng, 32, 16384), round(log_uniform(rng, 64, 60000))
    build = partial(rng.choice([nn.LayerNorm, nn.RMSNorm]), columns)
    return Layer(build=build, shape=(rows, columns), out=rows * columns)


class _Attention(nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, value: Tensor) -> Tensor:
        query, key, values = (part.transpose(1, 2) for part in value.unbind(2))
        return functional.scaled_dot_product_attention(query, key, values, is_causal=self.causal)


def _attention(rng: Random) -> Layer:
    head_dim = rng.choices([64, 128, 80, 96, 32, 48, 72, 256], [0.4, 0.26, 0.08, 0.08, 0.06, 0.04, 0.04, 0.04])[0]
    heads = round(log_uniform(rng, 1, 40))
    length = rounded(log_uniform(rng, 16, 8192), rng.choice([1, 8, 64, 64]))
    batch = any_batch(rng, 1, 256)
    out = batch * length * heads * head_dim
    return Layer(
        build=partial(_Attention, rng.random() < 0.5), shape=(batch, length, 3, heads, head_dim), out=out,
        flops=4.0 * out * length,
    )  # fmt: skip


Kind = Callable[[Random], Layer]
COMMON_KINDS: dict[Kind, float] = {
    _convolution: 0.62, _grouped_convolution: 0.13, _linear: 0.06, _product: 0.02, _soft: 0.02, _join: 0.04,
    _margin: 0.01, _embedding: 0.01, _pool: 0.03, _norm: 0.03, _attention: 0.03,
}  # fmt: skip
