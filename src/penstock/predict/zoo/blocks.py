"""The building blocks of convolutional networks, each in the few lines that decide its speed."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

Activation = Callable[[], nn.Module]


def conv_norm(
    inward: int, outward: int, kernel: int, stride: int = 1, groups: int = 1, activation: Activation | None = None
) -> nn.Sequential:
    """Convolution without bias, batch norm, and an activation if there is one."""
    parts: list[nn.Module] = [
        nn.Conv2d(inward, outward, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outward),
    ]  # fmt: skip
    return nn.Sequential(*parts, activation()) if activation else nn.Sequential(*parts)


def relu() -> nn.Module:
    return nn.ReLU(inplace=True)


def relu6() -> nn.Module:
    return nn.ReLU6(inplace=True)


def silu() -> nn.Module:
    return nn.SiLU(inplace=True)


class Residual(nn.Module):
    """A body added to its input; the input is projected where shapes differ."""

    def __init__(
        self, body: nn.Module, shortcut: nn.Module | None = None, activation: Activation | None = None
    ) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut or nn.Identity()
        self.activation = activation() if activation else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.activation(self.body(images) + self.shortcut(images))
        return out


def basic(inward: int, outward: int, stride: int = 1) -> nn.Module:
    """Two 3x3 convolutions (He et al., CVPR'16)."""
    body = nn.Sequential(conv_norm(inward, outward, 3, stride, activation=relu), conv_norm(outward, outward, 3))
    return Residual(body, _projection(inward, outward, stride), relu)


def bottleneck(inward: int, outward: int, stride: int = 1, middle: int = 0, groups: int = 1) -> nn.Module:
    """1x1 down, 3x3 (grouped in ResNeXt), 1x1 up (He et al., CVPR'16)."""
    middle = middle or outward // 4
    body = nn.Sequential(
        conv_norm(inward, middle, 1, activation=relu),
        conv_norm(middle, middle, 3, stride, groups, activation=relu),
        conv_norm(middle, outward, 1),
    )
    return Residual(body, _projection(inward, outward, stride), relu)


def _projection(inward: int, outward: int, stride: int) -> nn.Module | None:
    return conv_norm(inward, outward, 1, stride) if inward != outward or stride > 1 else None


class SqueezeExcite(nn.Module):
    """Channels scaled by a gate that has seen the whole image (Hu et al., CVPR'18)."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), nn.SiLU(inplace=True),
            nn.Conv2d(squeezed, channels, 1), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        return images * self.gate(images)  # type: ignore[no-any-return]


def inverted(
    inward: int, outward: int, stride: int = 1, *, expand: float = 6, kernel: int = 3, squeeze: bool = False,
    activation: Activation = relu6,
) -> nn.Module:  # fmt: skip
    """Wide depthwise convolution between narrow ends (Sandler et al., CVPR'18; gated: Tan and Le, ICML'19)."""
    wide = round(inward * expand / 8) * 8 if expand != int(expand) else inward * int(expand)
    parts: list[nn.Module] = [conv_norm(inward, wide, 1, activation=activation)] if expand > 1 else []
    parts.append(conv_norm(wide, wide, kernel, stride, groups=wide, activation=activation))
    if squeeze:
        parts.append(SqueezeExcite(wide, max(1, inward // 4)))
    parts.append(conv_norm(wide, outward, 1))
    body = nn.Sequential(*parts)
    return Residual(body) if stride == 1 and inward == outward else body


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of an image."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class LastAxis(nn.Module):
    """Runs a body with the channels as the last axis."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.body(images.permute(0, 2, 3, 1))
        return out.permute(0, 3, 1, 2)


def convnext(channels: int, kernel: int = 7) -> nn.Module:
    """Depthwise 7x7, then a two-layer network per pixel (Liu et al., CVPR'22)."""
    pixels = nn.Sequential(
        nn.LayerNorm(channels), nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)
    )
    return Residual(
        nn.Sequential(nn.Conv2d(channels, channels, kernel, 1, kernel // 2, groups=channels), LastAxis(pixels))
    )


class Dense(nn.Module):
    """A layer that sees everything before it and adds ``growth`` channels (Huang et al., CVPR'17)."""

    def __init__(self, inward: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inward), relu(), nn.Conv2d(inward, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), relu(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        return torch.cat([images, self.body(images)], 1)


def transition(inward: int, outward: int) -> nn.Module:
    return nn.Sequential(nn.BatchNorm2d(inward), relu(), nn.Conv2d(inward, outward, 1, bias=False), nn.AvgPool2d(2))


def head(channels: int, classes: int = 1000) -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
