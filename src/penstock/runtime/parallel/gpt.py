"""A GPT as the planner sees it: a chain of small operators that hand tensors to each other.

The chain may be cut between any two operators, so everything a later operator needs travels along: the residual
stream beside the attention scores, for instance. Every tensor has the samples in its first dimension. ``splits``
says for each tensor an operator hands on along which dimension tensor parallelism divides it; ``SEQUENCE`` stands
for dimension 1 where norms work on a slice of the sequence, and for "not at all" elsewhere.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from penstock.core import PlanError, gpt_operators
from penstock.runtime.parallel.collectives import gathered

SEQUENCE = -1
WHOLE = None
HEADS = 1
FEATURES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GPTShape:
    """The size of a GPT."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int

    def __post_init__(self) -> None:
        if min(self.layers, self.hidden, self.heads, self.vocabulary, self.sequence) < 1 or self.hidden % self.heads:
            raise PlanError(f"{self}", "positive sizes, and a hidden size divisible by the heads")


@dataclass(slots=True)
class Context:
    """Which part of the sequence this process works on, and with whom it shares the rest."""

    positions: Tensor
    group: "torch.distributed.ProcessGroup | None" = None
    all_positions: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.all_positions = gathered(self.positions, 0, self.group) if self.group else self.positions


class Operator(nn.Module):
    """One link of the chain."""

    splits: tuple[int | None, ...] = (SEQUENCE,)


class Embedding(Operator):
    def __init__(self, shape: GPTShape, context: Context) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.places = nn.Embedding(shape.sequence, shape.hidden)
        self.context = context

    def forward(self, tokens: Tensor) -> tuple[Tensor, ...]:
        places = self.context.positions.expand(tokens.shape[0], -1)
        return (self.tokens(tokens) + self.places(places),)


class Norm(Operator):
    """Opens a branch: its output, and beside it the residual stream it came from."""

    splits = (SEQUENCE, SEQUENCE)

    def __init__(self, shape: GPTShape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.hidden)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.norm(x), x


class QueryKeyValue(Operator):
    """Features are ordered head by head, so that a slice of them is a set of whole heads."""

    splits = (HEADS, HEADS, HEADS, SEQUENCE)

    def __init__(self, shape: GPTShape) -> None:
        super().__init__()
        self.linear = nn.Linear(shape.hidden, 3 * shape.hidden)
        self.head_dim = shape.hidden // shape.heads

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        qkv = self.linear(h)
        qkv = qkv.unflatten(-1, (-1, 3, self.head_dim)).permute(3, 0, 2, 1, 4)
        return qkv[0].contiguous(), qkv[1].contiguous(), qkv[2].contiguous(), x


class Score(Operator):
    """Where the sequence is split, the keys and values of the others are fetched here."""

    splits = (HEADS, HEADS, SEQUENCE)

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context

    def forward(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        if self.context.group is not None:
            k, v = gathered(k, 2, self.context.group), gathered(v, 2, self.context.group)
        return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), v, x


class CausalSoftmax(Operator):
    splits = (HEADS, HEADS, SEQUENCE)

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context

    def forward(self, scores: Tensor, v: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        later = self.context.positions[:, None] < self.context.all_positions[None, :]
        return scores.masked_fill(later, -torch.inf).softmax(-1), v, x


class Passing(Operator):
    """Dropout in the chain the planner knows; models of this kind are trained without it."""

    def __init__(self, splits: tuple[int | None, ...]) -> None:
        super().__init__()
        self.splits = splits

    def forward(self, *state: Tensor) -> tuple[Tensor, ...]:
        return state


class Weigh(Operator):
    splits = (FEATURES, SEQUENCE)

    def forward(self, weights: Tensor, v: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        return (weights @ v).transpose(1, 2).flatten(2), x


class Project(Operator):
    """A linear layer of a branch: into its width (``splits`` features) or back out of it."""

    def __init__(self, into: int, out: int, splits: int | None) -> None:
        super().__init__()
        self.linear = nn.Linear(into, out)
        self.splits = (splits, SEQUENCE)

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        return self.linear(h), x


class Gelu(Operator):
    splits = (FEATURES, SEQUENCE)

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        return nn.functional.gelu(h), x


class Rejoin(Operator):
    """Closes a branch."""

    def forward(self, h: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        return (h + x,)


class FinalNorm(Operator):
    def __init__(self, shape: GPTShape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.hidden)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return (self.norm(x),)


class Head(Operator):
    splits = (WHOLE,)

    def __init__(self, shape: GPTShape) -> None:
        super().__init__()
        self.linear = nn.Linear(shape.hidden, shape.vocabulary, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return (self.linear(x),)


def operators(
    shape: GPTShape, context: Context, first: int = 0, last: int | None = None, seed: int = 0
) -> list[Operator]:
    """Operators ``first`` to ``last`` of the chain; each draws its weights from a seed of its own, wherever it is."""
    made: list[Operator] = []
    makers = _makers(shape, context)
    for index, name in list(enumerate(gpt_operators(shape.layers)))[first:last]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed * 1_000_003 + index)
            made.append(makers[name]())
    return made


def _makers(shape: GPTShape, context: Context) -> dict[str, Callable[[], Operator]]:
    """What makes each operator of the chain, by its name."""
    wide = 4 * shape.hidden
    return {
        "embedding": lambda: Embedding(shape, context),
        "layer-norm-1": lambda: Norm(shape),
        "attention-qkv": lambda: QueryKeyValue(shape),
        "attention-score": lambda: Score(context),
        "attention-softmax": lambda: CausalSoftmax(context),
        "attention-dropout": lambda: Passing((HEADS, HEADS, SEQUENCE)),
        "attention-context": Weigh,
        "attention-dense": lambda: Project(shape.hidden, shape.hidden, SEQUENCE),
        "attention-residual": Rejoin,
        "layer-norm-2": lambda: Norm(shape),
        "mlp-in": lambda: Project(shape.hidden, wide, FEATURES),
        "mlp-activation": Gelu,
        "mlp-out": lambda: Project(wide, shape.hidden, SEQUENCE),
        "mlp-residual": Rejoin,
        "final-norm": lambda: FinalNorm(shape),
        "loss": lambda: Head(shape),
    }
