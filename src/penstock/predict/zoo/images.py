"""Convolutional networks of the literature at their published sizes, written from their papers."""

from collections.abc import Sequence
from math import ceil

from torch import nn

from penstock.predict.zoo.blocks import (
    ChannelNorm,
    Dense,
    basic,
    bottleneck,
    conv_norm,
    convnext,
    head,
    inverted,
    relu,
    relu6,
    silu,
    transition,
)


def _stem(channels: int) -> list[nn.Module]:
    return [conv_norm(3, channels, 7, 2, activation=relu), nn.MaxPool2d(3, 2, 1)]


def resnet(
    depths: Sequence[int], *, deep: bool = True, first: int = 64, width: int = 64, groups: int = 1
) -> nn.Module:  # fmt: skip
    """ResNet, Wide ResNet (``width`` 128) and ResNeXt (``groups`` 32, ``width`` 4 a group)."""
    layers, inward = _stem(first), first
    for stage, depth in enumerate(depths):
        outward = (4 * first if deep else first) << stage
        middle = (width * groups) << stage
        for index in range(depth):
            stride = 2 if index == 0 and stage else 1
            layers.append(
                bottleneck(inward, outward, stride, middle, groups) if deep else basic(inward, outward, stride)
            )
            inward = outward
    return nn.Sequential(*layers, head(inward))


def vgg(depths: Sequence[int] = (2, 2, 3, 3, 3), first: int = 64) -> nn.Module:
    layers: list[nn.Module] = []
    inward = 3
    for stage, depth in enumerate(depths):
        for _ in range(depth):
            outward = first << min(stage, 3)
            layers += [nn.Conv2d(inward, outward, 3, padding=1), relu()]
            inward = outward
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), *_classifier(inward * 49))


def _classifier(inward: int) -> list[nn.Module]:
    return [
        nn.Linear(inward, 4096), relu(), nn.Dropout(0.5), nn.Linear(4096, 4096), relu(), nn.Dropout(0.5),
        nn.Linear(4096, 1000),
    ]  # fmt: skip


def alexnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2), relu(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, padding=2), relu(),
        nn.MaxPool2d(3, 2), nn.Conv2d(192, 384, 3, padding=1), relu(), nn.Conv2d(384, 256, 3, padding=1), relu(),
        nn.Conv2d(256, 256, 3, padding=1), relu(), nn.MaxPool2d(3, 2), nn.Flatten(), *_classifier(256 * 36),
    )  # fmt: skip


def densenet(depths: Sequence[int] = (6, 12, 24, 16), growth: int = 32, first: int = 64) -> nn.Module:
    layers, inward = _stem(first), first
    for stage, depth in enumerate(depths):
        for _ in range(depth):
            layers.append(Dense(inward, growth))
            inward += growth
        if stage < len(depths) - 1:
            layers.append(transition(inward, inward // 2))
            inward //= 2
    return nn.Sequential(*layers, nn.BatchNorm2d(inward), relu(), head(inward))


def _scaled(channels: int, width: float) -> int:
    """A multiple of eight near ``channels * width``, as mobile networks round."""
    return max(8, int(channels * width + 4) // 8 * 8)


def mobilenet_v2(width: float = 1.0, most: int = 99) -> nn.Module:
    """MobileNet-V2; ``width`` scales channels, ``most`` limits the blocks of a stage."""
    first = _scaled(32, width)
    inward = _scaled(16, width)
    layers: list[nn.Module] = [conv_norm(3, first, 3, 2, activation=relu6), inverted(first, inward, expand=1)]
    for channels, depth, stride in ((24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)):
        outward = _scaled(channels, width)
        for index in range(min(depth, most)):
            layers.append(inverted(inward, outward, stride if index == 0 else 1))
            inward = outward
    last = _scaled(1280, max(1.0, width))
    return nn.Sequential(*layers, conv_norm(inward, last, 1, activation=relu6), head(last))


_EFFICIENT = (
    (16, 1, 1, 3, 1), (24, 2, 2, 3, 6), (40, 2, 2, 5, 6), (80, 3, 2, 3, 6), (112, 3, 1, 5, 6), (192, 4, 2, 5, 6),
    (320, 1, 1, 3, 6),
)  # fmt: skip
"""EfficientNet-B0: channels, blocks, stride, kernel, expansion."""


def efficientnet(width: float = 1.0, depth: float = 1.0, most: int = 99) -> nn.Module:
    """B0 to B7 by their scales (B2: 1.1 and 1.2); ``most`` limits the blocks of a stage."""
    inward = _scaled(32, width)
    layers: list[nn.Module] = [conv_norm(3, inward, 3, 2, activation=silu)]
    for channels, blocks, stride, kernel, expand in _EFFICIENT:
        outward = _scaled(channels, width)
        for index in range(min(ceil(blocks * depth), most)):
            step = stride if index == 0 else 1
            layers.append(inverted(inward, outward, step, expand=expand, kernel=kernel, squeeze=True, activation=silu))
            inward = outward
    last = _scaled(1280, width)
    return nn.Sequential(*layers, conv_norm(inward, last, 1, activation=silu), head(last))


def efficientnet_b0() -> nn.Module:
    return efficientnet()


def convnext_net(depths: Sequence[int] = (3, 3, 9, 3), widths: Sequence[int] = (96, 192, 384, 768)) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0])]
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        if stage:
            layers += [ChannelNorm(widths[stage - 1]), nn.Conv2d(widths[stage - 1], width, 2, 2)]
        layers += [convnext(width) for _ in range(depth)]
    return nn.Sequential(*layers, head(widths[-1]))
