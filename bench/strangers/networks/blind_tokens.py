"""Tokens mixed by plain layers, in sliding windows, through a few induced points, and with adapters of low rank."""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn


class Mlp(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)

    def forward(self, value: Tensor) -> Tensor:
        return self.down(self.act(self.up(value)))


class MixerBlock(nn.Module):
    def __init__(self, width: int, tokens: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across, self.within = Mlp(tokens, width // 2), Mlp(width, 4 * width)

    def forward(self, value: Tensor) -> Tensor:
        value = value + self.across(self.first(value).transpose(1, 2)).transpose(1, 2)
        return value + self.within(self.second(value))


class Mixer(nn.Module):
    def __init__(self, width: int, layers: int, patch: int = 16, classes: int = 1000) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*(MixerBlock(width, (224 // patch) ** 2) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, picture: Tensor) -> Tensor:
        value = self.blocks(self.patches(picture).flatten(2).transpose(1, 2))
        return self.head(self.norm(value).mean(dim=1))


def mixer(batch: int) -> Any:
    labels = torch.randint(1000, (batch,))
    return (
        Mixer(768, 12), torch.randn(batch, 3, 224, 224),
        lambda output: functional.cross_entropy(output.float(), labels),
    )  # fmt: skip


class SlidingAttention(nn.Module):
    """Every token sees as many before as behind it: chunks of queries against keys unfolded with overlap."""

    def __init__(self, width: int, heads: int, reach: int) -> None:
        super().__init__()
        self.heads, self.reach = heads, reach
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out, self.drop = nn.Linear(width, width), nn.Dropout(0.1)

    def forward(self, value: Tensor) -> Tensor:
        batch, length, width = value.shape
        reach, chunks = self.reach, length // self.reach
        query, key, content = (
            part(value).view(batch, length, self.heads, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        query = query.reshape(batch, self.heads, chunks, reach, -1) / (width // self.heads) ** 0.5
        key, content = (
            functional.pad(part, (0, 0, reach, reach)).unfold(2, 3 * reach, reach) for part in (key, content)
        )
        scores = torch.einsum("bhcqd,bhcdk->bhcqk", query, key)
        scores = scores.masked_fill(self._unseen(chunks, value.device), float("-inf"))
        weights = self.drop(torch.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype))
        mixed = torch.einsum("bhcqk,bhcdk->bhcqd", weights, content)
        return self.out(mixed.reshape(batch, self.heads, length, -1).transpose(1, 2).reshape(value.shape))

    def _unseen(self, chunks: int, device: torch.device) -> Tensor:
        reach = self.reach
        query = torch.arange(reach, device=device)[:, None] + reach
        key = torch.arange(3 * reach, device=device)[None, :]
        place = torch.arange(chunks, device=device)[:, None, None] * reach + key - reach
        return ((query - key).abs() > reach) | (place < 0) | (place >= chunks * reach)


class Longformer(nn.Module):
    def __init__(self, words: int, width: int, heads: int, layers: int, length: int, classes: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        self.attention = nn.ModuleList(SlidingAttention(width, heads, 128) for _ in range(layers))
        self.wide = nn.ModuleList(Mlp(width, 4 * width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.head = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Dropout(0.1), nn.Linear(width, classes))

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        value = self.drop(self.norm(self.words(tokens) + self.places(places)))
        for place, (attention, wide) in enumerate(zip(self.attention, self.wide, strict=True)):
            value = self.norms[2 * place](value + self.drop(attention(value)))
            value = self.norms[2 * place + 1](value + self.drop(wide(value)))
        return self.head(value.mean(dim=1))


def longformer(batch: int) -> Any:
    labels = torch.randint(11, (batch,))
    model = Longformer(50265, 512, 8, 8, 4096, 11)
    return model, torch.randint(50265, (batch, 4096)), lambda output: functional.cross_entropy(output, labels)


class LowRank(nn.Module):
    """A frozen layer and, beside it, a product of two thin matrices that learn."""

    def __init__(self, inward: int, outward: int, rank: int = 16, alpha: int = 32) -> None:
        super().__init__()
        self.frozen = nn.Linear(inward, outward, bias=False)
        self.down, self.up = nn.Linear(inward, rank, bias=False), nn.Linear(rank, outward, bias=False)
        self.drop, self.scale = nn.Dropout(0.05), alpha / rank
        nn.init.zeros_(self.up.weight)

    def forward(self, value: Tensor) -> Tensor:
        return self.frozen(value) + self.scale * self.up(self.down(self.drop(value)))


def rotated(value: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    left, right = value.chunk(2, dim=-1)
    return value * cosine + torch.cat([-right, left], dim=-1) * sine


class AdaptedBlock(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.value = LowRank(width, width), LowRank(width, width)
        self.key, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)

    def forward(self, value: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        batch, length, _ = value.shape
        normed = self.first(value)
        query, key, content = (
            part(normed).view(batch, length, self.heads, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        query, key = rotated(query, cosine, sine), rotated(key, cosine, sine)
        mixed = functional.scaled_dot_product_attention(query, key, content, is_causal=True)
        value = value + self.out(mixed.transpose(1, 2).reshape(value.shape))
        normed = self.second(value)
        return value + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class Adapted(nn.Module):
    """A language model whose weights are all frozen but for adapters of queries and values."""

    def __init__(self, words: int, width: int, heads: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.words, self.side = nn.Embedding(words, width), width // heads
        self.blocks = nn.ModuleList(AdaptedBlock(width, heads, hidden) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)
        for name, weight in self.named_parameters():
            weight.requires_grad_(
                ".query.down" in name or ".query.up" in name or ".value.down" in name or ".value.up" in name
            )

    def forward(self, tokens: Tensor) -> Tensor:
        value = self.words(tokens)
        rates = 10000 ** (-torch.arange(0, self.side, 2, device=tokens.device).float() / self.side)
        angles = torch.outer(torch.arange(tokens.shape[1], device=tokens.device).float(), rates).repeat(1, 2)
        cosine, sine = angles.cos().to(value.dtype), angles.sin().to(value.dtype)
        for block in self.blocks:
            value = block(value, cosine, sine)
        return self.head(self.norm(value))


def lora(batch: int) -> Any:
    tokens = torch.randint(32000, (batch, 1024))

    def loss(output: Tensor) -> Tensor:
        return functional.cross_entropy(output[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())

    return Adapted(32000, 1024, 16, 2816, 24), tokens, loss


class Pooling(nn.Module):
    """Attention from one set to another, its heads laid out along the batch."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, asking: Tensor, asked: Tensor) -> Tensor:
        split = partial(torch.chunk, chunks=self.heads, dim=2)
        query, key, value = self.query(asking), self.key(asked), self.value(asked)
        query, key, value = (torch.cat(split(part), dim=0) for part in (query, key, value))
        weights = torch.softmax(query.bmm(key.transpose(1, 2)) / self.width**0.5, dim=2)
        mixed = self.first(torch.cat((query + weights.bmm(value)).chunk(self.heads, dim=0), dim=2))
        return self.second(mixed + functional.relu(self.out(mixed)))


class Induced(nn.Module):
    """A set attends to itself through a few points of its own."""

    def __init__(self, width: int, heads: int, points: int) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.empty(1, points, width))
        nn.init.xavier_uniform_(self.points)
        self.gather, self.spread = Pooling(width, heads), Pooling(width, heads)

    def forward(self, value: Tensor) -> Tensor:
        return self.spread(value, self.gather(self.points.repeat(value.shape[0], 1, 1), value))


class SetTransformer(nn.Module):
    def __init__(self, inward: int, width: int, heads: int, classes: int) -> None:
        super().__init__()
        self.into = nn.Linear(inward, width)
        self.encoder = nn.Sequential(Induced(width, heads, 32), Induced(width, heads, 32))
        self.seed = nn.Parameter(torch.empty(1, 4, width))
        nn.init.xavier_uniform_(self.seed)
        self.pool, self.among, self.again = (Pooling(width, heads) for _ in range(3))
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(4 * width, classes)

    def forward(self, elements: Tensor) -> Tensor:
        value = self.encoder(self.into(elements))
        value = self.pool(self.seed.repeat(value.shape[0], 1, 1), self.drop(value))
        value = self.among(value, value)
        value = self.again(value, value)
        return self.head(self.drop(value).flatten(1))


def set_transformer(batch: int) -> Any:
    labels = torch.randint(40, (batch,))
    model = SetTransformer(3, 128, 4, 40)
    return model, torch.randn(batch, 1000, 3), lambda output: functional.cross_entropy(output, labels)
