"""Plans that split every stage alike, as trainers' flags can say: the floor no search may fall below.

A few hundred combinations of pipeline, tensor, context and data parallelism and micro-batch. For each, the least
recomputation and state sharding that fits; the rest is left out. Layers are dealt to stages evenly.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate, pairwise, product

import numpy as np

from penstock.core import ParallelPlan, ParallelStage
from penstock.parallel.families import Divides, Family, OpWork
from penstock.parallel.operators import OpChain

ZERO_STAGES = (0, 1, 2, 3)


class Recompute(StrEnum):
    """How much of a layer is computed again.

    Nothing; what its norms write; the attention between its linear layers (Megatron-LM's selective); all operators but
    attention and every second product (torchtitan's selective); or all of it.
    """

    NONE = "none"
    NORMS = "norms"
    SELECTIVE = "selective"
    OPERATORS = "operators"
    FULL = "full"


GRID_RECOMPUTE = (Recompute.NONE, Recompute.NORMS, Recompute.SELECTIVE, Recompute.FULL)
"""What the grid tries, lightest first."""


@dataclass(frozen=True, slots=True)
class Degrees:
    """One cell of the grid. ``micro_batch`` is per device."""

    pp: int
    tp: int
    dp: int
    context: int
    micro_batch: int

    @property
    def label(self) -> str:
        parts = [f"{name} {value}" for name, value in (("pp", self.pp), ("tp", self.tp), ("dp", self.dp))]
        parts += [f"cp {self.context}"] if self.context > 1 else []
        return ", ".join([*parts, f"micro-batch {self.micro_batch}"])


def grid(
    devices: int, per_node: int, batch: int, *, tp_degrees: Sequence[int], micro_batches: Sequence[int],
    contexts: Sequence[int] = (1,), most_stages: int = 64,
) -> Iterator[Degrees]:  # fmt: skip
    """Every combination whose product is ``devices``, whose micro-batches divide the batch, and that nodes can hold."""
    for tp, context, pp in product(tp_degrees, contexts, divisors(devices)):
        if devices % (tp * context * pp) or pp > most_stages or tp > per_node:
            continue
        dp = devices // (tp * context * pp)
        if not _whole(tp * context * dp, per_node):
            continue
        for size in micro_batches:
            if batch % (size * dp) == 0:
                yield Degrees(pp, tp, dp, context, size)


def plan_of(
    degrees: Degrees, chain: OpChain, family: Family, batch: int, *, recompute: Recompute = Recompute.NONE,
    zero: int = 0, sequence_parallel: bool = False,
) -> ParallelPlan | None:  # fmt: skip
    """The grid cell as a plan; None if the model has fewer layers than the pipeline stages."""
    cuts = even_cuts(chain, degrees.pp)
    if cuts is None:
        return None
    again = recomputed(chain, family, recompute)
    stages = tuple(
        replace(
            ParallelStage.uniform(stop - start, tp=degrees.tp, dp=degrees.dp, context=degrees.context),
            recompute=tuple(again[start:stop]),
        )
        for start, stop in pairwise(cuts)
    )
    return ParallelPlan(
        model=chain.model, global_batch=batch, micro_batch=degrees.micro_batch * degrees.dp, stages=stages, zero=zero,
        sequence_parallel=sequence_parallel and degrees.tp > 1, context=degrees.context,
    )  # fmt: skip


def even_cuts(chain: OpChain, stages: int) -> list[int] | None:
    """Borders of ``stages`` stages with equal numbers of layers, cut where layers start.

    Where they cannot be equal, the stages at the ends have one less: the last holds the loss, the first the embedding.
    """
    starts = np.flatnonzero(chain.starts_layer)
    if stages == 1:
        return [0, chain.size]
    if len(starts) < stages:
        return None
    borders = list(accumulate(even_layers(len(starts), stages)))[:-1]
    return [0, *(int(starts[border]) for border in borders), chain.size]


def even_layers(layers: int, stages: int) -> list[int]:
    """Layers of each stage, the last and the first of them with one less where the number does not divide.

    >>> even_layers(30, 4)
    [7, 8, 8, 7]
    """
    from_the_ends = sorted(range(stages), key=lambda number: (min(number, stages - 1 - number), -number))
    fewer = set(from_the_ends[: -layers % stages])
    most = -(-layers // stages)
    return [most - (number in fewer) for number in range(stages)]


def recomputed(chain: OpChain, family: Family, how: Recompute) -> list[bool]:
    """One flag per operator."""
    if how is Recompute.NONE:
        return [False] * chain.size
    chosen = _runs_of(family, how)
    if any(chosen):
        following = np.array(chosen)[chain.ops]
        return list((following | np.roll(following, 1)).tolist())
    if how is Recompute.OPERATORS:
        kept = [work.attends or work.pinned or _enters(work) for work in family.works]
        return [not kept[kind] for kind in chain.ops.tolist()]
    return [not chain.kinds[kind].pinned for kind in chain.ops.tolist()]


def _runs_of(family: Family, how: Recompute) -> list[bool]:
    """Which kinds are computed again together with the operator behind them, which reads what they write."""
    if how is Recompute.NORMS:
        return [work.norm for work in family.works]
    return [how is Recompute.SELECTIVE and work.attends for work in family.works]


def _enters(work: OpWork) -> bool:
    """Whether an operator is the first product of a block: what it writes is kept, what follows is computed again."""
    return any(product.divides is Divides.COLUMNS for product in work.products)


def divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _whole(stage: int, per_node: int) -> bool:
    """A stage lies inside a node or fills whole ones."""
    return per_node % stage == 0 if stage <= per_node else stage % per_node == 0
