"""The networks that others measured on other devices, in plain PyTorch: attention is not fused, as it was not there."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from penstock.predict.zoo import image_task, network_named
from penstock.predict.zoo.images import efficientnet_b0, resnet

Hook = Callable[[int], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A transformer over words: sizes, what joins its parts, and what stands on top."""

    layers: int
    width: int
    heads: int
    length: int
    words: int
    causal: bool = False
    after: bool = False
    """Norms after the residual sums, as in BERT; before each part otherwise."""
    activation: str = "gelu"
    outputs: int = 0
    """Classes of a whole text or of a word; 0 for a language model's head."""


class TanhGelu(nn.Module):
    """GELU by its approximation, operation by operation, as transformers has it."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


_ACTIVATIONS = {"gelu": nn.GELU, "tanh-gelu": TanhGelu, "relu": nn.ReLU}


class Attention(nn.Module):
    """Scores, soft-max, dropout and sums as kernels of their own."""

    hidden: Tensor

    def __init__(self, shape: Words, dropout: float) -> None:
        super().__init__()
        self.heads, self.causal = shape.heads, shape.causal
        self.query, self.key, self.value, self.out = (nn.Linear(shape.width, shape.width) for _ in range(4))
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("hidden", torch.ones(shape.length, shape.length, dtype=torch.bool).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape

        def split(part: nn.Module) -> Tensor:
            return part(x).view(batch, length, self.heads, -1).transpose(1, 2)  # type: ignore[no-any-return]

        scores = split(self.query) @ split(self.key).transpose(-1, -2) / math.sqrt(width // self.heads)
        if self.causal:
            scores = torch.where(self.hidden[:length, :length], -1e9, scores)
        mixed = self.dropout(scores.softmax(-1)) @ split(self.value)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))  # type: ignore[no-any-return]


class Block(nn.Module):
    def __init__(self, shape: Words, dropout: float) -> None:
        super().__init__()
        self.after, self.attention, self.dropout = shape.after, Attention(shape, dropout), nn.Dropout(dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(shape.width) for _ in range(2))
        self.wide, self.narrow = nn.Linear(shape.width, 4 * shape.width), nn.Linear(4 * shape.width, shape.width)
        self.activation = _ACTIVATIONS[shape.activation]()

    def forward(self, x: Tensor) -> Tensor:
        parts: tuple[Callable[[Tensor], Tensor], ...] = (self.attention, self._feed)
        for norm, part in zip(self.norms, parts, strict=True):
            x = norm(x + self.dropout(part(x))) if self.after else x + self.dropout(part(norm(x)))
        return x

    def _feed(self, x: Tensor) -> Tensor:
        return self.narrow(self.activation(self.wide(x)))  # type: ignore[no-any-return]


class Transformer(nn.Module):
    def __init__(self, shape: Words, dropout: float) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(shape.words, shape.width), nn.Embedding(shape.length, shape.width)
        self.blocks = nn.Sequential(*(Block(shape, dropout) for _ in range(shape.layers)))
        self.norm, self.dropout = nn.LayerNorm(shape.width), nn.Dropout(dropout)
        self.head = nn.Linear(shape.width, shape.outputs or shape.words)

    def forward(self, tokens: Tensor) -> Tensor:
        places = self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(self.dropout(self.words(tokens) + places))))  # type: ignore[no-any-return]


def _text(shape: Words, dropout: float, batch: int) -> Any:
    return Transformer(shape, dropout), (torch.randint(shape.words, (batch, shape.length)),)


_BERT = {"words": 30522, "after": True}
_GPT = {"words": 50257, "causal": True, "activation": "tanh-gelu"}
WORDS = {
    "bert_large": Words(layers=24, width=1024, heads=16, length=512, **_BERT),  # type: ignore[arg-type]
    "bert_large-128": Words(layers=24, width=1024, heads=16, length=128, **_BERT),  # type: ignore[arg-type]
    "bert_large-384": Words(layers=24, width=1024, heads=16, length=384, outputs=2, **_BERT),  # type: ignore[arg-type]
    "bert_base-384": Words(layers=12, width=768, heads=12, length=384, outputs=2, **_BERT),  # type: ignore[arg-type]
    "gpt2_large": Words(layers=36, width=1280, heads=20, length=1024, **_GPT),  # type: ignore[arg-type]
    "gpt3_xl": Words(layers=24, width=3072, heads=24, length=2048, **_GPT),  # type: ignore[arg-type]
    "gpt3_27": Words(layers=32, width=2560, heads=32, length=2048, **_GPT),  # type: ignore[arg-type]
    "opt_13": Words(layers=24, width=2048, heads=32, length=2048, words=50272, causal=True, activation="relu"),
}
_IMAGES: dict[str, Hook] = {
    "resnet50": network_named("resnet50").hook,
    "resnext101": partial(image_task, lambda: resnet((3, 4, 23, 3), width=4, groups=32)),
    "efficientnet-b0": partial(image_task, efficientnet_b0),
}


def hook_named(name: str, *, forward_only: bool) -> Hook:
    """The network of a measurement; nothing is dropped where only the forward pass was measured."""
    if name in _IMAGES:
        return _IMAGES[name]
    shape = WORDS[name]
    if forward_only and name == "bert_large":
        shape = Words(layers=24, width=1024, heads=16, length=512, outputs=2, words=30522, after=True)
    return partial(_text, shape, 0.0 if forward_only else 0.1)
