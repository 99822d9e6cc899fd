"""One transformer whose options give BERT, GPT-2, Llama, ViT and T5 at their published sizes."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerShape:
    """What decides the speed of a transformer."""

    layers: int
    hidden: int
    heads: int
    inner: int
    vocabulary: int = 0
    length: int = 0
    key_heads: int = 0
    head_dim: int = 0
    causal: bool = False
    gated: bool = False
    rms: bool = False
    bias: bool = True
    after: bool = False
    """Norm after the addition, as BERT does, instead of before."""
    rotary: bool = False
    fused_qkv: bool = False
    activation: str = "gelu"
    dropout: float = 0.0
    tied: bool = False

    def norm(self) -> nn.Module:
        return nn.RMSNorm(self.hidden) if self.rms else nn.LayerNorm(self.hidden)


class Attention(nn.Module):
    """Multi-head attention; keys and values come from ``memory`` where there is one."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.heads, self.key_heads = shape.heads, shape.key_heads or shape.heads
        self.head_dim = shape.head_dim or shape.hidden // shape.heads
        self.causal, self.rotary, self.fused = shape.causal, shape.rotary, shape.fused_qkv
        wide, narrow = self.heads * self.head_dim, self.key_heads * self.head_dim
        if self.fused:
            self.qkv = nn.Linear(shape.hidden, wide + 2 * narrow, shape.bias)
        else:
            self.query = nn.Linear(shape.hidden, wide, shape.bias)
            self.key = nn.Linear(shape.hidden, narrow, shape.bias)
            self.value = nn.Linear(shape.hidden, narrow, shape.bias)
        self.out = nn.Linear(wide, shape.hidden, shape.bias)

    def forward(self, tokens: Tensor, memory: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        query, key, value = self._project(tokens, tokens if memory is None else memory)
        if self.rotary:
            query, key = _rotate(query), _rotate(key)
        if self.key_heads < self.heads:
            times = self.heads // self.key_heads
            key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        causal = self.causal and memory is None and bias is None
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias, is_causal=causal)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out

    def _project(self, tokens: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.fused:
            wide, narrow = self.heads * self.head_dim, self.key_heads * self.head_dim
            query, key, value = self.qkv(tokens).split((wide, narrow, narrow), -1)
        else:
            query, key, value = self.query(tokens), self.key(memory), self.value(memory)
        return (
            self._by_head(query, self.heads),
            self._by_head(key, self.key_heads),
            self._by_head(value, self.key_heads),
        )

    def _by_head(self, values: Tensor, heads: int) -> Tensor:
        return values.view(*values.shape[:-1], heads, self.head_dim).transpose(1, 2)


def _rotate(values: Tensor) -> Tensor:
    """Rotary positions (Su et al., 2021): the angles are the same for every layer, so they are kept small here."""
    length, dim = values.shape[-2:]
    angle = torch.ones(length, dim, device=values.device, dtype=values.dtype)
    left, right = values.chunk(2, -1)
    return values * angle + torch.cat((-right, left), -1) * angle


class FeedForward(nn.Module):
    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.up = nn.Linear(shape.hidden, shape.inner, shape.bias)
        self.gate = nn.Linear(shape.hidden, shape.inner, shape.bias) if shape.gated else None
        self.down = nn.Linear(shape.inner, shape.hidden, shape.bias)
        self.activation = shape.activation

    def forward(self, tokens: Tensor) -> Tensor:
        up = self.up(tokens)
        active = _activate(self.activation, up if self.gate is None else self.gate(tokens))
        out: Tensor = self.down(active if self.gate is None else active * up)
        return out


def _activate(kind: str, values: Tensor) -> Tensor:
    if kind == "tanh-gelu":
        return functional.gelu(values, approximate="tanh")
    if kind == "gelu":
        return functional.gelu(values)
    return functional.silu(values) if kind == "silu" else functional.relu(values)


class Block(nn.Module):
    """Attention and feed-forward, and attention to an encoder in between where ``crossed``."""

    def __init__(self, shape: TransformerShape, *, crossed: bool = False) -> None:
        super().__init__()
        self.after = shape.after
        self.attention, self.norm = Attention(shape), shape.norm()
        self.cross = Attention(shape) if crossed else None
        self.cross_norm = shape.norm() if crossed else None
        self.forward_part, self.forward_norm = FeedForward(shape), shape.norm()
        self.dropout = nn.Dropout(shape.dropout) if shape.dropout else nn.Identity()

    def forward(self, tokens: Tensor, memory: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        tokens = self._add(tokens, self.norm, lambda inner: self.attention(inner, bias=bias))
        if self.cross is not None and self.cross_norm is not None:
            cross = self.cross
            tokens = self._add(tokens, self.cross_norm, lambda inner: cross(inner, memory))
        return self._add(tokens, self.forward_norm, self.forward_part)

    def _add(self, tokens: Tensor, norm: nn.Module, part: Callable[[Tensor], Tensor]) -> Tensor:
        out: Tensor = (
            norm(tokens + self.dropout(part(tokens))) if self.after else tokens + self.dropout(part(norm(tokens)))
        )
        return out


class LanguageModel(nn.Module):
    """Tokens in, one score per word of the vocabulary and position out."""

    def __init__(self, shape: TransformerShape, *, masked_head: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.hidden)
        self.places = None if shape.rotary else nn.Embedding(shape.length, shape.hidden)
        self.dropout = nn.Dropout(shape.dropout) if shape.dropout else nn.Identity()
        self.first_norm = shape.norm() if shape.after else nn.Identity()
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.last_norm = nn.Identity() if shape.after else shape.norm()
        self.transform = (
            nn.Sequential(nn.Linear(shape.hidden, shape.hidden), nn.GELU(), shape.norm())
            if masked_head
            else nn.Identity()
        )
        self.scores = nn.Linear(shape.hidden, shape.vocabulary, bias=masked_head)
        if shape.tied:
            self.scores.weight = self.words.weight

    def forward(self, tokens: Tensor) -> Tensor:
        states = self.words(tokens)
        if self.places is not None:
            states = states + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        states = self.dropout(self.first_norm(states))
        for block in self.blocks:
            states = block(states)
        out: Tensor = self.scores(self.transform(self.last_norm(states)))
        return out


class VisionTransformer(nn.Module):
    """Patches as tokens (Dosovitskiy et al., ICLR'21)."""

    def __init__(self, shape: TransformerShape, *, patch: int = 16, classes: int = 1000, pixels: int = 224) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, shape.hidden, patch, patch)
        self.summary = nn.Parameter(torch.zeros(1, 1, shape.hidden))
        self.places = nn.Parameter(torch.zeros(1, (pixels // patch) ** 2 + 1, shape.hidden))
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = shape.norm()
        self.scores = nn.Linear(shape.hidden, classes)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patches(images).flatten(2).transpose(1, 2)
        states = torch.cat([self.summary.expand(len(images), -1, -1), patches], 1) + self.places
        for block in self.blocks:
            states = block(states)
        out: Tensor = self.scores(self.norm(states)[:, 0])
        return out


class EncoderDecoder(nn.Module):
    """T5 (Raffel et al., JMLR'20): relative positions as a bias on the scores of self-attention."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.hidden)
        self.near = nn.Embedding(32, shape.heads)
        self.encoder = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.decoder = nn.ModuleList(Block(shape, crossed=True) for _ in range(shape.layers))
        self.encoder_norm, self.decoder_norm = shape.norm(), shape.norm()
        self.scores = nn.Linear(shape.hidden, shape.vocabulary, bias=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, states = self.words(source), self.words(target)
        bias = self._bias(source)
        for block in self.encoder:
            memory = block(memory, bias=bias)
        memory = self.encoder_norm(memory)
        bias = self._bias(target)
        for block in self.decoder:
            states = block(states, memory, bias=bias)
        out: Tensor = self.scores(self.decoder_norm(states))
        return out

    def _bias(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        distance = (places[None] - places[:, None]).clamp(-16, 15) + 16
        near: Tensor = self.near(distance).permute(2, 0, 1)[None]
        return near.expand(len(tokens), -1, -1, -1).contiguous()
