"""Aceso's performance model, exactly: time and memory of a plan of a synchronous 1F1B pipeline.

From the model of Liu et al., "Aceso: Efficient Parallel DNN Training through Iterative Bottleneck Alleviation",
EuroSys'24, as its artifact computes it, quirks included, so that figures can be compared digit by digit:

* the size of a stage's output is read at the tensor-parallel degree of its *first* operator;
* the last operator of a stage does not count for reserved memory;
* a recomputed segment that ends a stage right behind an operator with a shared buffer has no peak.

:func:`repaired_stage_cost` is without them. Not modelled, as in the original: gradient synchronisation, the optimizer
step, overlap. :func:`evaluate` judges every plan of every search here; no search keeps its own arithmetic for the final
word.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from penstock.core import ParallelStage, PlanError
from penstock.parallel.operators import CostTables, Floats, OpState

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost:
    """One micro-batch on one stage in microseconds, and the stage's memory in megabytes.

    ``input_us`` and ``output_us`` hold the transfers and the resharding of the forward and the backward pass;
    ``reshard_us`` says how much of both is resharding.
    """

    forward_us: float
    backward_us: float
    recompute_us: float
    input_us: float
    output_us: float
    reshard_us: float
    weights_mb: float
    gradients_mb: float
    optimizer_mb: float
    activations_mb: float
    peak_mb: float
    reserved_mb: float

    @property
    def time_us(self) -> float:
        return self.forward_us + self.backward_us + self.recompute_us + self.input_us + self.output_us

    @property
    def memory_mb(self) -> float:
        return (
            self.weights_mb + self.gradients_mb + self.optimizer_mb + self.activations_mb + self.peak_mb
            + self.reserved_mb
        )  # fmt: skip


def stage_cost(
    tables: CostTables, start: int, stage: ParallelStage, micro_batch: int, *, later: int,
    entering: bool = False, leaving: bool = False,
) -> StageCost:  # fmt: skip
    """Cost of one stage whose first operator is ``start``, with ``later`` stages behind it."""
    return _cost(_StageView.of(tables, start, stage, micro_batch), later, entering, leaving)


def repaired_stage_cost(
    tables: CostTables, start: int, stage: ParallelStage, micro_batch: int, *, later: int,
    entering: bool = False, leaving: bool = False,
) -> StageCost:  # fmt: skip
    """The same without the quirks."""
    return _cost(_RepairedView.of(tables, start, stage, micro_batch), later, entering, leaving)


def _cost(view: "_StageView", later: int, entering: bool, leaving: bool) -> StageCost:
    tables = view.tables
    reshard_forward, reshard_backward = view.reshard_us()
    links = tables.links
    weights = float(view.read(tables.weight_mb).sum())
    kept = view.input_mb + float(view.activations().sum()) - view.saved_mb()
    return StageCost(
        forward_us=float(view.read(tables.fwd_us).sum()),
        backward_us=float(view.read(tables.bwd_us).sum()),
        recompute_us=float(view.read(tables.fwd_us)[view.recompute].sum()),
        input_us=links.transfer_us(view.input_mb, entering) + reshard_forward,
        output_us=links.transfer_us(view.output_mb, leaving) + reshard_backward,
        reshard_us=reshard_forward + reshard_backward,
        weights_mb=weights * (1 + tables.memory.main),
        gradients_mb=weights,
        optimizer_mb=weights * tables.memory.optimizer,
        activations_mb=kept * later,
        peak_mb=kept + view.peak_mb(),
        reserved_mb=view.reserved_mb(weights),
    )


@dataclass(frozen=True)
class _StageView:
    """A stage as index arrays into the tables."""

    tables: CostTables
    stage: ParallelStage
    micro_batch: int
    kinds: Ints
    batch: Ints
    degree: Ints
    variant: Ints
    recompute: Flags
    starts_layer: Flags

    @classmethod
    def of(cls, tables: CostTables, start: int, stage: ParallelStage, micro_batch: int) -> Self:
        ops = slice(start, start + stage.ops)
        return cls(
            tables, stage, micro_batch, tables.chain.ops[ops],
            _indices(micro_batch // np.array(stage.dp), tables.micro_batches, "micro-batch per device"),
            _indices(np.array(stage.tp), tables.tp_degrees, "tensor-parallel degree"),
            np.array(stage.variant), np.array(stage.recompute, bool), tables.chain.starts_layer[ops],
        )  # fmt: skip

    def read(self, table: Floats) -> Floats:
        values: Floats = table[self.kinds, self.batch, self.degree, self.variant]
        if np.isnan(values).any():
            op = int(np.isnan(values).argmax())
            raise PlanError(
                f"operator {self.tables.chain.kinds[self.kinds[op]].name} with tp {self.stage.tp[op]} and micro-batch "
                f"{self.micro_batch // self.stage.dp[op]} per device, which has no cost",
                "a combination in the tables",
            )
        return values

    @cached_property
    def input_mb(self) -> float:
        at = self.kinds[0], self.batch[0], self.degree[0], self.variant[0]
        return float(self.tables.input_mb[at])

    @cached_property
    def output_mb(self) -> float:
        at = self.kinds[-1], self.batch[-1], self.degree[0], self.variant[-1]
        return float(self.tables.output_mb[at])

    def reshard_us(self) -> tuple[float, float]:
        if not self.tables.mixes:
            return 0.0, 0.0
        states = zip(self.kinds.tolist(), self.stage.tp, self.stage.dp, self.stage.variant, strict=True)
        forward = backward = 0.0
        for (before, after), times in Counter(pairwise(states)).items():
            there, back = self.tables.reshard_us(self._state(*before), self._state(*after))
            forward, backward = forward + times * there, backward + times * back
        return forward, backward

    def _state(self, kind: int, tp: int, dp: int, variant: int) -> OpState:
        return OpState(kind, tp, dp, variant, self.micro_batch // dp)

    def activations(self) -> Floats:
        scaled: Floats = self.read(self.tables.activation_mb) * self.tables.activation_scale[self.kinds]
        return scaled

    def saved_mb(self) -> float:
        """Activations that need not be kept: of an operator recomputed together with the next one."""
        both = self.recompute[:-1] & self.recompute[1:]
        kept = self.starts_layer[1:] & ~self._shares_buffer[:-1]
        return float(self.activations()[:-1][both & ~kept].sum())

    def peak_mb(self) -> float:
        """The largest segment that is alive while it is recomputed."""
        sizes = self.activations()
        largest = segment = 0.0
        last = len(sizes) - 2
        for op in range(last + 1):
            if not (self.recompute[op] and self.recompute[op + 1]):
                largest, segment = max(largest, segment), 0.0
                continue
            segment += sizes[op]
            if self._closes(op, last):
                largest, segment = max(largest, segment), 0.0
        return float(largest)

    def _closes(self, op: int, last: int) -> bool:
        """Whether a recomputed segment ends with ``op``."""
        return not self._shares_buffer[op] and bool(self.starts_layer[op + 1] or op == last)

    @cached_property
    def _shares_buffer(self) -> Flags:
        shares: Flags = self.tables.activation_scale[self.kinds] != 1.0
        return shares

    def reserved_mb(self, weights: float) -> float:
        forward = self.read(self.tables.fwd_reserved_mb)[:-1].max(initial=0.0)
        backward = self.read(self.tables.bwd_reserved_mb)[:-1].max(initial=0.0)
        return float(max(forward + backward, weights))


class _RepairedView(_StageView):
    """Output at its own degree, the last operator's buffers, and the peak of every segment."""

    @cached_property
    def output_mb(self) -> float:
        return float(self.read(self.tables.output_mb)[-1])

    def _closes(self, op: int, last: int) -> bool:
        return op == last or super()._closes(op, last)

    def reserved_mb(self, weights: float) -> float:
        forward, backward = self.read(self.tables.fwd_reserved_mb).max(), self.read(self.tables.bwd_reserved_mb).max()
        return float(max(forward + backward, weights))


def _indices(values: Ints, known: tuple[int, ...], what: str) -> Ints:
    order = np.searchsorted(known, values)
    clipped = np.minimum(order, len(known) - 1)
    if (np.array(known)[clipped] != values).any():
        wrong = int(values[np.array(known)[clipped] != values][0])
        raise PlanError(f"a {what} of {wrong}", f"one of {', '.join(map(str, known))}")
    return clipped
