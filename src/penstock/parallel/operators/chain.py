"""A model as the planner sees it: a chain of operators, most of them the same few kinds over and over.

A chain says nothing about time or memory; :class:`~penstock.parallel.operators.CostTables` does, per *kind*.
Whoever adds a model family writes one function that returns an :class:`OpChain` and one that fills tables for its
kinds; every search and cost model here then works on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from penstock.core import PlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class OpKind:
    """One kind of operator.

    ``starts_layer``: its input is the layer's input, which is kept even when everything around it is recomputed.
    ``tunable``: it has tensor-parallel variants worth trying one by one (linear layers, convolutions).
    ``pinned``: must not be recomputed on its own account (embeddings, the loss).
    ``seeds_recompute``: Aceso's greedy may pick it as the first of a recomputed pair.
    ``expert``: its weights are those of experts, of which a token uses some.
    """

    name: str
    starts_layer: bool = False
    tunable: bool = False
    pinned: bool = False
    seeds_recompute: bool = True
    expert: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """``count`` times the same ``period`` operators, the first of them at position ``start``."""

    start: int
    period: int
    count: int

    @property
    def stop(self) -> int:
        return self.start + self.period * self.count


@dataclass(frozen=True, kw_only=True)
class OpChain:
    """The operators of one model in order; ``ops[i]`` is the index of operator i's kind in ``kinds``.

    >>> chain = OpChain.of("toy", [OpKind(name="in"), OpKind(name="body"), OpKind(name="out")], [0, 1, 2], [1, 3, 1])
    >>> chain.size, chain.names()
    (5, ('in', 'body', 'body', 'body', 'out'))
    """

    model: str
    kinds: tuple[OpKind, ...]
    ops: NDArray[np.int64]
    repeats: tuple[Repeat, ...] = field(default=())

    def __post_init__(self) -> None:
        if not len(self.ops):
            raise PlanError(f"model {self.model!r} without operators", "at least one")
        if self.ops.min() < 0 or self.ops.max() >= len(self.kinds):
            raise PlanError(f"model {self.model!r} names a kind outside 0..{len(self.kinds) - 1}", "a known kind")

    @classmethod
    def of(
        cls, model: str, kinds: Sequence[OpKind], parts: Sequence[int | Sequence[int]], counts: Sequence[int]
    ) -> "OpChain":
        """A chain of parts, each a kind or a list of kinds, each repeated ``counts`` times."""
        ops: list[int] = []
        repeats = []
        for part, count in zip(parts, counts, strict=True):
            period = [part] if isinstance(part, int) else list(part)
            if count > 1:
                repeats.append(Repeat(start=len(ops), period=len(period), count=count))
            ops += period * count
        return cls(model=model, kinds=tuple(kinds), ops=np.array(ops, np.int64), repeats=tuple(repeats))

    @property
    def size(self) -> int:
        return len(self.ops)

    def names(self) -> tuple[str, ...]:
        return tuple(self.kinds[kind].name for kind in self.ops)

    @cached_property
    def starts_layer(self) -> NDArray[np.bool_]:
        return self._flag("starts_layer")

    @cached_property
    def tunable(self) -> NDArray[np.bool_]:
        return self._flag("tunable")

    @cached_property
    def pinned(self) -> NDArray[np.bool_]:
        return self._flag("pinned")

    def _flag(self, name: str) -> NDArray[np.bool_]:
        return np.array([getattr(kind, name) for kind in self.kinds], bool)[self.ops]
