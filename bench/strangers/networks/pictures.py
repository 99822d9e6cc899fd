"""Diffusion, adversarial and variational networks, detectors, segmentation, volumes and films."""

import itertools
import math

import torch
import torch.nn.functional as functional
from torch import Tensor, nn


class NoisyBlock(nn.Module):
    def __init__(self, inward: int, outward: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, inward), nn.SiLU(), nn.Conv2d(inward, outward, 3, padding=1))
        self.time = nn.Linear(time, 2 * outward)
        self.norm = nn.GroupNorm(32, outward)
        self.second = nn.Sequential(nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(outward, outward, 3, padding=1))
        self.skip = nn.Conv2d(inward, outward, 1) if inward != outward else nn.Identity()

    def forward(self, value: Tensor, time: Tensor) -> Tensor:
        scale, shift = self.time(functional.silu(time))[:, :, None, None].chunk(2, dim=1)
        return self.skip(value) + self.second(self.norm(self.first(value)) * (1 + scale) + shift)


class PictureAttention(nn.Module):
    def __init__(self, channels: int, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(32, channels)
        self.parts, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, value: Tensor) -> Tensor:
        batch, channels, height, width = value.shape
        parts = self.parts(self.norm(value)).view(batch, 3, self.heads, channels // self.heads, height * width)
        query, key, content = parts.transpose(-1, -2).unbind(1)
        mixed = functional.scaled_dot_product_attention(query, key, content)
        return value + self.out(mixed.transpose(-1, -2).reshape(batch, channels, height, width))


class DiffusionUNet(nn.Module):
    """Predicts noise: three resolutions, attention in the lowest one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        time = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.into = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(
            [NoisyBlock(width, width, time), NoisyBlock(width, 2 * width, time), NoisyBlock(2 * width, 2 * width, time)]
        )
        self.halve = nn.ModuleList(nn.Conv2d(c, c, 3, stride=2, padding=1) for c in (width, 2 * width))
        self.middle = nn.ModuleList(
            [NoisyBlock(2 * width, 2 * width, time), PictureAttention(2 * width),
             NoisyBlock(2 * width, 2 * width, time)]
        )  # fmt: skip
        self.up = nn.ModuleList(
            [NoisyBlock(4 * width, 2 * width, time), NoisyBlock(4 * width, 2 * width, time),
             NoisyBlock(3 * width, width, time)]
        )  # fmt: skip
        self.raised = nn.ModuleList(nn.Conv2d(2 * width, 2 * width, 3, padding=1) for _ in range(2))
        self.out = nn.Sequential(nn.GroupNorm(32, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, picture: Tensor, when: Tensor) -> Tensor:
        time = self.time(sinusoids(when, self.width).to(picture.dtype))
        kept, value = [], self.into(picture)
        for level, block in enumerate(self.down):
            value = block(value, time)
            kept.append(value)
            if level < 2:
                value = self.halve[level](value)
        value = self.middle[2](self.middle[1](self.middle[0](value, time)), time)
        for level, block in enumerate(self.up):
            value = block(torch.cat([value, kept.pop()], dim=1), time)
            if level < 2:
                value = self.raised[level](functional.interpolate(value, scale_factor=2.0, mode="nearest"))
        return self.out(value)


def sinusoids(when: Tensor, width: int) -> Tensor:
    rates = torch.exp(-math.log(10000) * torch.arange(width // 2, device=when.device) / (width // 2))
    angles = when.float()[:, None] * rates[None]
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


class AdaptiveBlock(nn.Module):
    """DiT: norms whose scale and shift come from the time step and the class."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = (nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.parts, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.adapt = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, value: Tensor, told: Tensor) -> Tensor:
        shift, scale, gate, shift2, scale2, gate2 = self.adapt(told)[:, None].chunk(6, dim=-1)
        batch, length, _width = value.shape
        parts = self.parts(self.first(value) * (1 + scale) + shift)
        query, key, content = parts.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, content).transpose(1, 2).reshape(value.shape)
        value = value + gate * self.out(mixed)
        return value + gate2 * self.wide(self.second(value) * (1 + scale2) + shift2)


class DiffusionTransformer(nn.Module):
    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.width = width
        self.patches = nn.Conv2d(4, width, 2, stride=2)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.label = nn.Embedding(1001, width)
        self.places = nn.Parameter(torch.zeros(1, 256, width))
        self.blocks = nn.ModuleList(AdaptiveBlock(width, heads) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(width, elementwise_affine=False), nn.Linear(width, 16)

    def forward(self, latent: Tensor, when: Tensor, label: Tensor) -> Tensor:
        value = self.patches(latent).flatten(2).transpose(1, 2) + self.places
        told = self.time(sinusoids(when, 256).to(latent.dtype)) + self.label(label)
        for block in self.blocks:
            value = block(value, told)
        batch, side = latent.shape[0], latent.shape[-1] // 2
        pixels = self.out(self.norm(value)).view(batch, side, side, 2, 2, 4)
        return pixels.permute(0, 5, 1, 3, 2, 4).reshape(latent.shape)


class Adversaries(nn.Module):
    """DCGAN: what a generator draws is judged together with real pictures, and both learn."""

    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = [8 * width, 4 * width, 2 * width, width]
        grow: list[nn.Module] = [nn.ConvTranspose2d(128, sizes[0], 4), nn.BatchNorm2d(sizes[0]), nn.ReLU(True)]
        for inward, outward in itertools.pairwise(sizes):
            grow += [nn.ConvTranspose2d(inward, outward, 4, 2, 1), nn.BatchNorm2d(outward), nn.ReLU(True)]
        self.generator = nn.Sequential(*grow, nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())
        judge: list[nn.Module] = [nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2, True)]
        for outward, inward in zip(sizes[::-1][1:], sizes[::-1], strict=False):
            judge += [nn.Conv2d(inward, outward, 4, 2, 1), nn.InstanceNorm2d(outward), nn.LeakyReLU(0.2, True)]
        self.judge = nn.Sequential(*judge, nn.Conv2d(8 * width, 1, 4))

    def forward(self, noise: Tensor, real: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        drawn = self.generator(noise)
        return self.judge(drawn), self.judge(drawn.detach()), self.judge(real)


def adversarial_loss(output: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    fooled, false, true = (part.float() for part in output)
    return functional.softplus(-fooled).mean() + functional.softplus(false).mean() + functional.softplus(-true).mean()


class Quantised(nn.Module):
    """VQ-VAE: codes by the nearest of a book's vectors, gradients straight through."""

    def __init__(self, width: int, codes: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, 64, 1),
        )  # fmt: skip
        self.book = nn.Embedding(codes, 64)
        self.decoder = nn.Sequential(
            nn.Conv2d(64, width, 3, 1, 1), nn.ReLU(), nn.ConvTranspose2d(width, width, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1),
        )  # fmt: skip

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = self.encoder(picture).permute(0, 2, 3, 1).contiguous()
        flat = found.view(-1, 64)
        nearest = torch.cdist(flat, self.book.weight).argmin(dim=1)
        chosen = self.book(nearest).view_as(found)
        straight = found + (chosen - found).detach()
        return self.decoder(straight.permute(0, 3, 1, 2)), chosen, found


def quantised_loss(output: tuple[Tensor, Tensor, Tensor], picture: Tensor) -> Tensor:
    drawn, chosen, found = output
    kept = functional.mse_loss(chosen, found.detach()) + 0.25 * functional.mse_loss(found, chosen.detach())
    return functional.mse_loss(drawn, picture) + kept


class Residual(nn.Module):
    def __init__(self, inward: int, outward: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inward, outward, 3, stride, 1, bias=False), nn.BatchNorm2d(outward), nn.ReLU(inplace=True),
            nn.Conv2d(outward, outward, 3, 1, 1, bias=False), nn.BatchNorm2d(outward),
        )  # fmt: skip
        self.skip = nn.Sequential(nn.Conv2d(inward, outward, 1, stride, bias=False), nn.BatchNorm2d(outward))

    def forward(self, value: Tensor) -> Tensor:
        return functional.relu(self.path(value) + self.skip(value))


class Detector(nn.Module):
    """A pyramid of features and heads over them, with the focal loss of RetinaNet."""

    def __init__(self, classes: int = 80, anchors: int = 9, width: int = 256) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.stages = nn.ModuleList([Residual(64, 128, 2), Residual(128, 256, 2), Residual(256, 512, 2)])
        self.lateral = nn.ModuleList(nn.Conv2d(channels, width, 1) for channels in (128, 256, 512))
        self.scores = self._head(anchors * classes, width)
        self.boxes = self._head(anchors * 4, width)
        self.classes = classes

    @staticmethod
    def _head(outward: int, width: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for _ in range(4):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*layers, nn.Conv2d(width, outward, 3, padding=1))

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        value, found = self.stem(picture), []
        for stage in self.stages:
            value = stage(value)
            found.append(value)
        levels = [lateral(value) for lateral, value in zip(self.lateral, found, strict=True)]
        for fine in (1, 0):
            levels[fine] = levels[fine] + functional.interpolate(levels[fine + 1], size=levels[fine].shape[-2:])
        scores = torch.cat([self._rows(self.scores(level), self.classes) for level in levels], dim=1)
        boxes = torch.cat([self._rows(self.boxes(level), 4) for level in levels], dim=1)
        return scores, boxes

    @staticmethod
    def _rows(value: Tensor, columns: int) -> Tensor:
        return value.permute(0, 2, 3, 1).reshape(value.shape[0], -1, columns)


def detection_loss(output: tuple[Tensor, Tensor]) -> Tensor:
    scores, boxes = output
    wanted = torch.zeros_like(scores)
    loss = functional.binary_cross_entropy_with_logits(scores.float(), wanted.float(), reduction="none")
    sure = torch.sigmoid(scores.float())
    focal = (sure * (1 - wanted) + (1 - sure) * wanted) ** 2
    return (focal * loss).mean() + functional.smooth_l1_loss(boxes.float(), torch.zeros_like(boxes).float())


class Segmenter(nn.Module):
    """DeepLab: a backbone, windows with holes in parallel, and scores blown up to the picture's size."""

    def __init__(self, classes: int = 21) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), Residual(64, 128, 2),
            Residual(128, 256, 2), Residual(256, 512, 1),
        )  # fmt: skip
        self.rates = nn.ModuleList(
            [nn.Conv2d(512, 256, 1), *(nn.Conv2d(512, 256, 3, padding=rate, dilation=rate) for rate in (6, 12, 18))]
        )
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(512, 256, 1), nn.ReLU())
        self.out = nn.Sequential(
            nn.Conv2d(1280, 256, 1), nn.BatchNorm2d(256), nn.ReLU(), nn.Dropout(0.5), nn.Conv2d(256, classes, 1)
        )

    def forward(self, picture: Tensor) -> Tensor:
        value = self.backbone(picture)
        whole = functional.interpolate(self.whole(value), size=value.shape[-2:], mode="bilinear")
        seen = torch.cat([*(rate(value) for rate in self.rates), whole], dim=1)
        return functional.interpolate(self.out(seen), size=picture.shape[-2:], mode="bilinear", align_corners=False)


def _volume(inward: int, outward: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv3d(inward, outward, 3, padding=1), nn.InstanceNorm3d(outward, affine=True), nn.LeakyReLU(0.01, True),
        nn.Conv3d(outward, outward, 3, padding=1), nn.InstanceNorm3d(outward, affine=True), nn.LeakyReLU(0.01, True),
    )  # fmt: skip


class VolumeUNet(nn.Module):
    """nnU-Net's shape: scans in, a class for every voxel out."""

    def __init__(self, width: int, classes: int = 4) -> None:
        super().__init__()
        sizes = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList(_volume(i, o) for i, o in zip([1, *sizes], sizes, strict=False))
        self.raise_ = nn.ModuleList(
            nn.ConvTranspose3d(i, o, 2, 2) for i, o in zip(sizes[:0:-1], sizes[-2::-1], strict=True)
        )
        self.up = nn.ModuleList(_volume(2 * o, o) for o in sizes[-2::-1])
        self.out = nn.Conv3d(width, classes, 1)

    def forward(self, scan: Tensor) -> Tensor:
        kept, value = [], scan
        for level, block in enumerate(self.down):
            value = block(functional.max_pool3d(value, 2) if level else value)
            kept.append(value)
        kept.pop()
        for raised, block in zip(self.raise_, self.up, strict=True):
            value = block(torch.cat([raised(value), kept.pop()], dim=1))
        return self.out(value)


class FilmBlock(nn.Module):
    """R(2+1)D: a window over the picture, then one over time."""

    def __init__(self, inward: int, outward: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv3d(inward, outward, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False), nn.BatchNorm3d(outward),
            nn.ReLU(True), nn.Conv3d(outward, outward, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False),
            nn.BatchNorm3d(outward),
        )  # fmt: skip
        self.skip = nn.Sequential(nn.Conv3d(inward, outward, 1, stride, bias=False), nn.BatchNorm3d(outward))

    def forward(self, value: Tensor) -> Tensor:
        return functional.relu(self.path(value) + self.skip(value))


class Film(nn.Module):
    def __init__(self, width: int = 64, classes: int = 400) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv3d(3, width, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(width), nn.ReLU(True)
        )
        self.stages = nn.Sequential(
            FilmBlock(width, width, 1), FilmBlock(width, 2 * width, 2), FilmBlock(2 * width, 4 * width, 2),
            FilmBlock(4 * width, 8 * width, 2),
        )  # fmt: skip
        self.pool, self.out = nn.AdaptiveAvgPool3d(1), nn.Linear(8 * width, classes)

    def forward(self, film: Tensor) -> Tensor:
        return self.out(self.pool(self.stages(self.stem(film))).flatten(1))
