"""Pictures made larger, looked at through windows, painted in a style, taken apart into capsules, recognised again."""

import itertools
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn


class PlainResidual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(width, width, 3, padding=1)
        )

    def forward(self, value: Tensor) -> Tensor:
        return value + self.body(value)


class Enlarger(nn.Module):
    """EDSR: residual blocks without norms at the small size, then pixels out of channels, twice."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4488, 0.4371, 0.4040]).view(1, 3, 1, 1))
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.Sequential(*(PlainResidual(width) for _ in range(blocks)), nn.Conv2d(width, width, 3, padding=1))
        tail: list[nn.Module] = []
        for _ in range(2):
            tail += [nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2)]
        self.tail = nn.Sequential(*tail, nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, picture: Tensor) -> Tensor:
        value = self.head(picture - self.mean)
        return self.tail(value + self.body(value)) + self.mean


def edsr(batch: int) -> Any:
    sharp = torch.rand(batch, 3, 192, 192)
    return Enlarger(64, 16), torch.rand(batch, 3, 48, 48), lambda output: functional.l1_loss(output, sharp)


def windows_of(value: Tensor, window: int) -> Tensor:
    batch, height, width, channels = value.shape
    value = value.view(batch, height // window, window, width // window, window, channels)
    return value.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window * window, channels)


def windows_joined(windows: Tensor, window: int, side: int) -> Tensor:
    count = side // window
    value = windows.view(-1, count, count, window, window, windows.shape[-1])
    return value.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, side, side, windows.shape[-1])


class WindowAttention(nn.Module):
    def __init__(self, width: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        places = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = (places[:, :, None] - places[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", apart[..., 0] * (2 * window - 1) + apart[..., 1])
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, value: Tensor, mask: Tensor | None) -> Tensor:
        rows, length, width = value.shape
        query, key, content = self.qkv(value).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (query * self.scale) @ key.transpose(-2, -1)
        bias = self.table[self.index.view(-1)].view(length, length, -1).permute(2, 0, 1).contiguous()
        scores = scores + bias.unsqueeze(0)
        if mask is not None:
            count = mask.shape[0]
            scores = scores.view(rows // count, count, self.heads, length, length) + mask[:, None]
            scores = scores.view(-1, self.heads, length, length)
        mixed = scores.softmax(dim=-1) @ content
        return self.proj(mixed.transpose(1, 2).reshape(rows, length, width))


class DropPath(nn.Module):
    def __init__(self, chance: float) -> None:
        super().__init__()
        self.keep = 1 - chance

    def forward(self, value: Tensor) -> Tensor:
        if self.keep == 1 or not self.training:
            return value
        kept = value.new_empty(value.shape[0], *[1] * (value.dim() - 1)).bernoulli_(self.keep)
        return value * kept.div_(self.keep)


class WindowBlock(nn.Module):
    def __init__(self, width: int, heads: int, side: int, shift: int, drop: float, window: int = 7) -> None:
        super().__init__()
        self.window, self.side, self.shift = window, side, shift if side > window else 0
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = WindowAttention(width, heads, window)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.drop = DropPath(drop)
        self.register_buffer("mask", self._mask() if self.shift else None)

    def _mask(self) -> Tensor:
        regions = torch.zeros(1, self.side, self.side, 1)
        parts = (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
        for number, (rows, columns) in enumerate(itertools.product(parts, parts)):
            regions[:, rows, columns, :] = number
        found = windows_of(regions, self.window).squeeze(-1)
        apart = found[:, None, :] - found[:, :, None]
        return apart.masked_fill(apart != 0, -100.0)

    def forward(self, value: Tensor) -> Tensor:
        """Of shape (batch, side, side, width)."""
        windows = self.first(value)
        if self.shift:
            windows = torch.roll(windows, shifts=(-self.shift, -self.shift), dims=(1, 2))
        windows = self.attention(windows_of(windows, self.window), self.mask)
        mixed = windows_joined(windows, self.window, self.side)
        if self.shift:
            mixed = torch.roll(mixed, shifts=(self.shift, self.shift), dims=(1, 2))
        value = value + self.drop(mixed)
        return value + self.drop(self.mlp(self.second(value)))


class PatchMerging(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, value: Tensor) -> Tensor:
        corners = [value[:, 0::2, 0::2], value[:, 1::2, 0::2], value[:, 0::2, 1::2], value[:, 1::2, 1::2]]
        return self.reduce(self.norm(torch.cat(corners, dim=-1)))


class Swin(nn.Module):
    """Attention inside windows that are shifted in every other block; the picture halves between stages."""

    def __init__(self, width: int, depths: tuple[int, ...], heads: tuple[int, ...], classes: int = 1000) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, width, 4, stride=4), nn.LayerNorm(width)
        drops = torch.linspace(0, 0.2, sum(depths), device="cpu").tolist()
        stages: list[nn.Module] = []
        for stage, (depth, count) in enumerate(zip(depths, heads, strict=True)):
            wide, side = width << stage, 56 >> stage
            stages += [WindowBlock(wide, count, side, 3 * (place % 2), drops.pop(0)) for place in range(depth)]
            stages += [PatchMerging(wide)] if stage < len(depths) - 1 else []
        self.stages = nn.Sequential(*stages)
        last = width << (len(depths) - 1)
        self.last, self.head = nn.LayerNorm(last), nn.Linear(last, classes)

    def forward(self, picture: Tensor) -> Tensor:
        value = self.stages(self.norm(self.patches(picture).permute(0, 2, 3, 1)))
        return self.head(self.last(value).mean(dim=(1, 2)))


def swin(batch: int) -> Any:
    labels = torch.randint(1000, (batch,))
    model = Swin(96, (2, 2, 6, 2), (3, 6, 12, 24))
    return (
        model, torch.randn(batch, 3, 224, 224),
        lambda output: functional.cross_entropy(output, labels, label_smoothing=0.1),
    )  # fmt: skip


def painted(inward: int, outward: int, window: int, stride: int = 1) -> list[nn.Module]:
    return [
        nn.ReflectionPad2d(window // 2), nn.Conv2d(inward, outward, window, stride),
        nn.InstanceNorm2d(outward, affine=True),
    ]  # fmt: skip


class PaintedResidual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*painted(width, width, 3), nn.ReLU(), *painted(width, width, 3))

    def forward(self, value: Tensor) -> Tensor:
        return value + self.body(value)


def painter() -> nn.Sequential:
    return nn.Sequential(
        *painted(3, 32, 9), nn.ReLU(), *painted(32, 64, 3, 2), nn.ReLU(), *painted(64, 128, 3, 2), nn.ReLU(),
        *(PaintedResidual(128) for _ in range(5)), nn.Upsample(scale_factor=2, mode="nearest"),
        *painted(128, 64, 3), nn.ReLU(), nn.Upsample(scale_factor=2, mode="nearest"), *painted(64, 32, 3), nn.ReLU(),
        nn.ReflectionPad2d(4), nn.Conv2d(32, 3, 9),
    )  # fmt: skip


class Perception(nn.Module):
    """The first ten convolutions of VGG-16, which say what four depths of it see."""

    def __init__(self) -> None:
        super().__init__()
        self.stages, inward = nn.ModuleList(), 3
        for outward, count in ((64, 2), (128, 2), (256, 3), (512, 3)):
            layers: list[nn.Module] = [nn.MaxPool2d(2)] if inward > 3 else []
            for _ in range(count):
                layers += [nn.Conv2d(inward, outward, 3, padding=1), nn.ReLU(inplace=True)]
                inward = outward
            self.stages.append(nn.Sequential(*layers))

    def forward(self, picture: Tensor) -> list[Tensor]:
        found = []
        for stage in self.stages:
            picture = stage(picture)
            found.append(picture)
        return found


def gram(value: Tensor) -> Tensor:
    batch, channels, height, width = value.shape
    flat = value.view(batch, channels, height * width)
    return flat.bmm(flat.transpose(1, 2)) / (channels * height * width)


class StyleTransfer(nn.Module):
    """A painter is trained against what a frozen network sees in its paintings, in the photographs and in the style."""

    def __init__(self) -> None:
        super().__init__()
        self.painter, self.perception = painter(), Perception().requires_grad_(False)
        for place, channels in enumerate((64, 128, 256, 512)):
            self.register_buffer(f"style{place}", torch.rand(1, channels, channels))

    def forward(self, photograph: Tensor) -> Tensor:
        painting = self.painter(photograph)
        seen = self.perception(painting)
        with torch.no_grad():
            content = self.perception(photograph)[1]
        loss = 1e5 * functional.mse_loss(seen[1], content)
        for place, value in enumerate(seen):
            wanted = getattr(self, f"style{place}")
            loss = loss + 1e10 * functional.mse_loss(gram(value), wanted.expand(len(value), -1, -1))
        rough = (painting[..., 1:] - painting[..., :-1]).abs().mean()
        return loss + rough + (painting[..., 1:, :] - painting[..., :-1, :]).abs().mean()


def style(batch: int) -> Any:
    return StyleTransfer(), torch.rand(batch, 3, 256, 256)


def squash(value: Tensor) -> Tensor:
    square = value.square().sum(-1, keepdim=True)
    return square / (1 + square) * value / (square.sqrt() + 1e-8)


class Capsules(nn.Module):
    """Digits as vectors: small capsules vote for large ones, and agreement is found in three rounds of routing."""

    def __init__(self, classes: int = 10, rounds: int = 3) -> None:
        super().__init__()
        self.classes, self.rounds = classes, rounds
        self.into, self.primary = nn.Conv2d(1, 256, 9), nn.Conv2d(256, 32 * 8, 9, stride=2)
        self.votes = nn.Parameter(0.01 * torch.randn(32 * 6 * 6, classes, 16, 8))
        self.decoder = nn.Sequential(
            nn.Linear(16 * classes, 512), nn.ReLU(inplace=True), nn.Linear(512, 1024), nn.ReLU(inplace=True),
            nn.Linear(1024, 784), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, picture: Tensor, label: Tensor) -> Tensor:
        batch = picture.shape[0]
        small = self.primary(functional.relu(self.into(picture))).view(batch, 32, 8, 36)
        small = squash(small.permute(0, 1, 3, 2).reshape(batch, -1, 8))
        large = self.routed(torch.einsum("nkoi,bni->bnko", self.votes, small))
        wanted = functional.one_hot(label, self.classes).to(large.dtype)
        drawn = self.decoder((large * wanted[..., None]).flatten(1))
        length = (large.square().sum(-1) + 1e-8).sqrt()
        present, absent = functional.relu(0.9 - length).square(), functional.relu(length - 0.1).square()
        margin = (wanted * present + 0.5 * (1 - wanted) * absent).sum(1).mean()
        return margin + 0.0005 * (drawn - picture.flatten(1)).square().sum(1).mean()

    def routed(self, votes: Tensor) -> Tensor:
        logits = torch.zeros(votes.shape[:3], device=votes.device, dtype=votes.dtype)
        settled = votes.detach()
        for _ in range(self.rounds - 1):
            large = squash((logits.softmax(dim=2)[..., None] * settled).sum(1))
            logits = logits + (settled * large[:, None]).sum(-1)
        return squash((logits.softmax(dim=2)[..., None] * votes).sum(1))


def capsules(batch: int) -> Any:
    return Capsules(), (torch.rand(batch, 1, 28, 28), torch.randint(10, (batch,)))
