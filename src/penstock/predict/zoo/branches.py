"""Convolutional networks whose layers branch: Inception, Fire and shuffled units, written from their papers."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from penstock.predict.zoo.blocks import Activation, conv_norm, head, inverted, relu


class Branches(nn.Module):
    """Bodies side by side over the same images, their channels joined."""

    def __init__(self, *bodies: nn.Module) -> None:
        super().__init__()
        self.bodies = nn.ModuleList(bodies)

    def forward(self, images: Tensor) -> Tensor:
        return torch.cat([body(images) for body in self.bodies], 1)


def inception(inward: int, one: int, three: tuple[int, int], five: tuple[int, int], pooled: int) -> nn.Module:
    """1x1, 3x3, 5x5 and pooling side by side, the wide ones behind a narrow 1x1 (Szegedy et al., CVPR'15)."""
    return Branches(
        conv_norm(inward, one, 1, activation=relu),
        nn.Sequential(conv_norm(inward, three[0], 1, activation=relu), conv_norm(*three, 3, activation=relu)),
        nn.Sequential(conv_norm(inward, five[0], 1, activation=relu), conv_norm(*five, 5, activation=relu)),
        nn.Sequential(nn.MaxPool2d(3, 1, 1), conv_norm(inward, pooled, 1, activation=relu)),
    )


_INCEPTIONS: tuple[tuple[int, tuple[int, int], tuple[int, int], int] | None, ...] = (
    (64, (96, 128), (16, 32), 32), (128, (128, 192), (32, 96), 64), None,
    (192, (96, 208), (16, 48), 64), (160, (112, 224), (24, 64), 64), (128, (128, 256), (24, 64), 64),
    (112, (144, 288), (32, 64), 64), (256, (160, 320), (32, 128), 128), None,
    (256, (160, 320), (32, 128), 128), (384, (192, 384), (48, 128), 128),
)  # fmt: skip
"""GoogLeNet's modules; None halves the image."""


def googlenet() -> nn.Module:
    layers: list[nn.Module] = [
        conv_norm(3, 64, 7, 2, activation=relu), nn.MaxPool2d(3, 2, 1), conv_norm(64, 64, 1, activation=relu),
        conv_norm(64, 192, 3, activation=relu), nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    inward = 192
    for widths in _INCEPTIONS:
        if widths is None:
            layers.append(nn.MaxPool2d(3, 2, 1))
            continue
        layers.append(inception(inward, *widths))
        inward = widths[0] + widths[1][1] + widths[2][1] + widths[3]
    return nn.Sequential(*layers, head(inward))


def fire(inward: int, squeezed: int, wide: int) -> nn.Module:
    """A narrow 1x1, then 1x1 and 3x3 side by side (Iandola et al., 2016)."""
    sides = Branches(
        nn.Sequential(nn.Conv2d(squeezed, wide, 1), relu()),
        nn.Sequential(nn.Conv2d(squeezed, wide, 3, padding=1), relu()),
    )
    return nn.Sequential(nn.Conv2d(inward, squeezed, 1), relu(), sides)


def squeezenet(width: float = 1.0) -> nn.Module:
    """SqueezeNet 1.1; ``width`` scales its channels."""

    def scaled(channels: int) -> int:
        return int(channels * width)

    layers: list[nn.Module] = [nn.Conv2d(3, scaled(64), 3, 2), relu(), nn.MaxPool2d(3, 2)]
    inward = scaled(64)
    for squeezed, wide, halved in ((16, 64, False), (16, 64, True), (32, 128, False), (32, 128, True),
                                   (48, 192, False), (48, 192, False), (64, 256, False), (64, 256, False)):  # fmt: skip
        layers.append(fire(inward, scaled(squeezed), scaled(wide)))
        layers += [nn.MaxPool2d(3, 2)] if halved else []
        inward = 2 * scaled(wide)
    return nn.Sequential(*layers, nn.Conv2d(inward, 1000, 1), relu(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Shuffled(nn.Module):
    """Half of the channels pass, half are worked on, then both are interleaved (Ma et al., ECCV'18)."""

    def __init__(self, inward: int, outward: int, stride: int) -> None:
        super().__init__()
        half = outward // 2
        taken = inward if stride > 1 else half
        self.body = nn.Sequential(
            conv_norm(taken, half, 1, activation=relu), conv_norm(half, half, 3, stride, half),
            conv_norm(half, half, 1, activation=relu),
        )  # fmt: skip
        self.side = (
            nn.Sequential(conv_norm(inward, inward, 3, stride, inward), conv_norm(inward, half, 1, activation=relu))
            if stride > 1
            else None
        )

    def forward(self, images: Tensor) -> Tensor:
        if self.side is None:
            passed, worked = images.chunk(2, 1)
            joined = torch.cat([passed, self.body(worked)], 1)
        else:
            joined = torch.cat([self.side(images), self.body(images)], 1)
        batch, channels, high, wide = joined.shape
        return joined.view(batch, 2, channels // 2, high, wide).transpose(1, 2).reshape(batch, channels, high, wide)


def shufflenet(widths: Sequence[int] = (116, 232, 464), depths: Sequence[int] = (4, 8, 4)) -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 24, 3, 2, activation=relu), nn.MaxPool2d(3, 2, 1)]
    inward = 24
    for width, depth in zip(widths, depths, strict=True):
        layers += [Shuffled(inward if index == 0 else width, width, 2 if index == 0 else 1) for index in range(depth)]
        inward = width
    return nn.Sequential(*layers, conv_norm(inward, 1024, 1, activation=relu), head(1024))


def _hard_swish() -> nn.Module:
    return nn.Hardswish(inplace=True)


_V3_LARGE: tuple[tuple[int, float, int, int, bool, Activation], ...] = (
    (16, 1, 3, 1, False, relu), (24, 4, 3, 2, False, relu), (24, 3, 3, 1, False, relu), (40, 3, 5, 2, True, relu),
    (40, 3, 5, 1, True, relu), (40, 3, 5, 1, True, relu), (80, 6, 3, 2, False, _hard_swish),
    (80, 2.5, 3, 1, False, _hard_swish), (80, 2.3, 3, 1, False, _hard_swish), (80, 2.3, 3, 1, False, _hard_swish),
    (112, 6, 3, 1, True, _hard_swish), (112, 6, 3, 1, True, _hard_swish), (160, 6, 5, 2, True, _hard_swish),
    (160, 6, 5, 1, True, _hard_swish), (160, 6, 5, 1, True, _hard_swish),
)  # fmt: skip
"""Channels out, expansion, kernel, stride, gated, activation."""


def mobilenet_v3() -> nn.Module:
    """MobileNet-V3 large (Howard et al., ICCV'19)."""
    layers: list[nn.Module] = [conv_norm(3, 16, 3, 2, activation=_hard_swish)]
    inward = 16
    for outward, expand, kernel, stride, gated, activation in _V3_LARGE:
        layers.append(
            inverted(inward, outward, stride, expand=expand, kernel=kernel, squeeze=gated, activation=activation)
        )
        inward = outward
    top = [conv_norm(inward, 960, 1, activation=_hard_swish), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *top, nn.Linear(960, 1280), _hard_swish(), nn.Dropout(0.2), nn.Linear(1280, 1000))
