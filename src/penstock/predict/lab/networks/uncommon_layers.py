"""Random layers that few networks use much, and many a network somewhere: what the usual ones leave uncovered.

Even windows and transposed convolutions, sequences and volumes, norms of single images and of rows that lie otherwise
in memory, sums over short rows and over everything, joins of turned tensors, tables with repeated rows, and
narrow products.
"""

from collections.abc import Callable
from functools import partial
from math import prod
from random import Random

import torch
from torch import Tensor, nn

from penstock.predict.lab.networks.layers import Kind, Layer, any_channels, any_picture
from penstock.predict.lab.networks.random_sizes import any_batch, log_uniform, rounded


class _Applied(nn.Module):
    """A function of one tensor as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, value: Tensor) -> Tensor:
        return self.function(value)


class _Turned(nn.Module):
    """A layer whose input lies otherwise in memory than its shape says."""

    def __init__(self, build: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.layer = build()

    def forward(self, value: Tensor) -> Tensor:
        return self.layer(value.transpose(1, 2))  # type: ignore[no-any-return]


def _even_window(rng: Random) -> Layer:
    """Windows of 2, 4, 6 and 8 pixels that overlap or do not, as where pictures are halved without pooling."""
    inward, outward = any_channels(rng, 3, 768), any_channels(rng, 8, 768)
    window, stride, padding = rng.choice([(4, 2, 1), (4, 2, 1), (4, 2, 1), (2, 1, 0), (6, 2, 2), (8, 4, 2), (4, 1, 0)])
    height, width = any_picture(rng, max(inward, outward))
    if min(height, width) + 2 * padding < window:
        return _even_window(rng)
    batch = any_batch(rng, 4, 512)
    sides = [(side + 2 * padding - window) // stride + 1 for side in (height, width)]
    out = batch * outward * prod(sides)
    return Layer(
        build=partial(nn.Conv2d, inward, outward, window, stride, padding), shape=(batch, inward, height, width),
        out=out, flops=2.0 * out * inward * window**2,
    )  # fmt: skip


def _transposed_convolution(rng: Random) -> Layer:
    inward, outward = any_channels(rng, 8, 768), any_channels(rng, 3, 768)
    window, stride, padding = rng.choice([(4, 2, 1), (4, 2, 1), (2, 2, 0), (2, 2, 0), (3, 2, 1), (4, 1, 0), (3, 1, 1)])
    height, width = any_picture(rng, max(inward, outward, 128))
    if rng.random() < 0.1:
        height = width = 1
    batch = any_batch(rng, 4, 512)
    sides = [(side - 1) * stride - 2 * padding + window for side in (height, width)]
    if min(sides) < 1:
        return _transposed_convolution(rng)
    flops = 2.0 * batch * height * width * inward * outward * window**2
    return Layer(
        build=partial(nn.ConvTranspose2d, inward, outward, window, stride, padding),
        shape=(batch, inward, height, width), out=batch * outward * prod(sides), flops=flops,
    )  # fmt: skip


def _sequence_convolution(rng: Random) -> Layer:
    """Along one dimension: dilated, depthwise, strided; often of a sequence that lies with its channels last."""
    inward = any_channels(rng, 1, 1536) if rng.random() < 0.9 else 1
    depthwise = inward > 1 and rng.random() < 0.35
    outward = inward if depthwise else any_channels(rng, 8, 1536)
    window = rng.choice([1, 1, 2, 3, 3, 3, 4, 5, 7, 9, 15, 31])
    stride, dilation = rng.choice([(1, 1), (1, 1), (1, 1), (1, 1), (2, 1), (5, 1), (1, 2), (1, 8), (1, 64)])
    length, batch = round(log_uniform(rng, 32, 16000)), any_batch(rng, 2, 128)
    padding = dilation * (window - 1) // 2
    steps = (length + 2 * padding - dilation * (window - 1) - 1) // stride + 1
    if steps < 1:
        return _sequence_convolution(rng)
    groups = inward if depthwise else 1
    build = partial(nn.Conv1d, inward, outward, window, stride, padding, dilation, groups)
    turned = rng.random() < 0.5
    out = batch * outward * steps
    return Layer(
        build=partial(_Turned, build) if turned else build,
        shape=(batch, length, inward) if turned else (batch, inward, length), out=out,
        flops=2.0 * out * inward / groups * window,
    )  # fmt: skip


def _volume_convolution(rng: Random) -> Layer:
    inward, outward = any_channels(rng, 3, 512), any_channels(rng, 8, 512)
    window = rng.choice([(3, 3, 3), (3, 3, 3), (1, 1, 1), (1, 3, 3), (3, 1, 1), (2, 2, 2)])
    stride = 2 if window == (2, 2, 2) or rng.random() < 0.25 else 1
    deep_pad, high_pad, wide_pad = (each // 2 if each == 3 else 0 for each in window)
    padding = (deep_pad, high_pad, wide_pad)
    deep, side = rng.choice([4, 8, 16, 32, 64]), rng.choice([7, 8, 14, 16, 28, 32, 56, 64])
    batch = any_batch(rng, 1, 32)
    sides = [(s + 2 * p - w) // stride + 1 for s, p, w in zip((deep, side, side), padding, window, strict=True)]
    out = batch * outward * prod(sides)
    return Layer(
        build=partial(nn.Conv3d, inward, outward, window, stride, padding), shape=(batch, inward, deep, side, side),
        out=out, flops=2.0 * out * inward * prod(window),
    )  # fmt: skip


def _norm_of_images(rng: Random) -> Layer:
    wide = any_channels(rng, 8, 1024)
    height, width = any_picture(rng, wide)
    shape = (any_batch(rng, 2, 256), wide, height, width)
    groups = rng.choice([each for each in (1, 2, 4, 8, 16, 32) if wide % each == 0])
    build: Callable[[], nn.Module] = partial(nn.GroupNorm, groups, wide)
    if rng.random() < 0.5:
        build = partial(nn.InstanceNorm2d, wide, affine=rng.random() < 0.5)
    return Layer(build=build, shape=shape, out=prod(shape)) if height * width > 1 else _norm_of_images(rng)


def _norm_of_rows(rng: Random) -> Layer:
    """Of rows that are narrow, that have no scale, that lie otherwise; over a batch of them."""
    columns, rows = any_channels(rng, 8, 1536), round(log_uniform(rng, 64, 2e5))
    kind = rng.choice(["layer", "plain", "turned", "batch", "batch", "group"])
    if kind == "batch":
        return Layer(build=partial(nn.BatchNorm1d, columns), shape=(rows, columns), out=rows * columns)
    if kind == "group":
        groups = rng.choice([each for each in (2, 4, 8, 16) if columns % each == 0] or [1])
        return Layer(build=partial(nn.GroupNorm, groups, columns), shape=(rows, columns), out=rows * columns)
    build = partial(nn.LayerNorm, columns, elementwise_affine=kind == "layer")
    if kind != "turned":
        return Layer(build=build, shape=(rows, columns), out=rows * columns)
    batch = max(1, rows // 256)
    return Layer(build=partial(_Turned, build), shape=(batch, columns, 256), out=batch * columns * 256)


_OF_EVERYTHING: tuple[Callable[..., Tensor], ...] = (torch.sum, torch.mean, torch.linalg.vector_norm)
_ALONG_ONE: tuple[Callable[..., Tensor], ...] = (torch.sum, torch.sum, torch.mean, torch.amax)


def _reduced(rng: Random) -> Layer:
    """Over the last or the middle of three dimensions, or over all of them."""
    shape = tuple(max(1, round(log_uniform(rng, 1, most))) for most in (4096, 1024, 512))
    if rng.random() < 0.4:
        shape = (round(log_uniform(rng, 1e3, 1e6)), rng.choice([1, 4, 8]), rng.choice([2, 4, 8, 16, 20, 32, 64, 96]))
    if rng.random() < 0.15:
        return Layer(build=partial(_Applied, rng.choice(_OF_EVERYTHING)), shape=shape, out=1.0)
    axis = rng.choice([-1, -1, 1])
    function = partial(rng.choice(_ALONG_ONE), dim=axis)
    return Layer(build=partial(_Applied, function), shape=shape, out=prod(shape) / shape[axis])


def _turned_join(rng: Random) -> Layer:
    """Tensors that lie otherwise, side by side or as a new dimension: heads of an attention, branches of a graph."""
    parts, heads, wide = rng.choice([2, 3, 3, 4]), rng.choice([4, 6, 8, 12, 16]), rng.choice([32, 64, 64, 128])
    batch, length = any_batch(rng, 1, 128), round(log_uniform(rng, 16, 2048))
    stacked = rng.random() < 0.5

    def join(value: Tensor) -> Tensor:
        turned = [part.transpose(1, 2) for part in value.unbind(2)]
        return torch.stack(turned) if stacked else torch.cat(turned, -1)

    shape = (batch, length, parts, heads, wide)
    return Layer(build=partial(_Applied, join), shape=shape, out=prod(shape))


def _cut(rng: Random) -> Layer:
    """A part of a tensor, whose gradient is put back into zeros."""
    shape = (any_batch(rng, 2, 512), round(log_uniform(rng, 4, 1024)), any_channels(rng, 16, 2048))
    axis = rng.choice([0, 1, 2])
    kept = max(1, shape[axis] // rng.choice([2, 3, 4, 64]))
    return Layer(
        build=partial(_Applied, lambda value: value.narrow(axis, 0, kept)), shape=shape,
        out=prod(shape) * kept / shape[axis],
    )  # fmt: skip


def _table(rng: Random) -> Layer:
    """Few or very many rows, narrow ones too, each looked up once or often."""
    rows, wide = round(log_uniform(rng, 10, 2e6)), rng.choice([1, 4, 8, 16, 32, 64, 64, 128, 128, 256, 512])
    looked_up = round(log_uniform(rng, 256, 1e6))
    if rows * wide > 1.5e8 or looked_up * wide > 6e7:
        return _table(rng)
    return Layer(build=partial(nn.Embedding, rows, wide), shape=(looked_up,), out=looked_up * wide, words=rows)


def _narrow_linear(rng: Random) -> Layer:
    """Many rows and few columns on one side: heads, coordinates, features of tables."""
    narrow, wide = round(log_uniform(rng, 1, 64)), rounded(log_uniform(rng, 16, 1024), rng.choice([1, 8, 32]))
    inward, outward = rng.choice([(narrow, wide), (wide, narrow)])
    rows = any_batch(rng, 256, 1e6)
    return Layer(
        build=partial(nn.Linear, inward, outward), shape=(rows, inward), out=rows * outward,
        flops=2.0 * rows * inward * outward,
    )  # fmt: skip


def _soft_across(rng: Random) -> Layer:
    """Over another dimension than the last, or over a handful of columns."""
    shape = (any_batch(rng, 2, 512), round(log_uniform(rng, 2, 1024)), round(log_uniform(rng, 2, 512)))
    return Layer(
        build=partial(rng.choice([nn.Softmax, nn.LogSoftmax]), rng.choice([1, -1])), shape=shape, out=prod(shape)
    )


UNCOMMON_KINDS: dict[Kind, float] = {
    _even_window: 0.16, _transposed_convolution: 0.14, _sequence_convolution: 0.16, _volume_convolution: 0.06,
    _norm_of_images: 0.08, _norm_of_rows: 0.08, _reduced: 0.12, _turned_join: 0.05, _cut: 0.02, _table: 0.06,
    _narrow_linear: 0.05, _soft_across: 0.02,
}  # fmt: skip
