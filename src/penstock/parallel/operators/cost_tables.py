"""What every operator costs, as arrays: the one thing a cost model or a search reads.

Anything that fills :class:`CostTables` can be searched: a reader of measured profiles as well as an estimate from
datasheets. Axes are always ``[kind, micro-batch index, tp index, variant]``; NaN in ``fwd_us`` means the combination
cannot be run. Megabytes are 2**20 bytes, as profilers print them; times of tensor-parallel operators include their own
collectives.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from penstock.core import PlanError
from penstock.parallel.operators.chain import OpChain
from penstock.parallel.operators.tensor_layout import Collective, Reshard, TensorLayout, reshard

Floats = NDArray[np.float64]
COLUMNS = (
    "fwd_us", "bwd_us", "input_mb", "output_mb", "weight_mb", "activation_mb", "fwd_reserved_mb", "bwd_reserved_mb",
)  # fmt: skip
FORBIDDEN_MS = 100_000.0
"""Price of a collective nobody measured: high enough that no plan uses it (Aceso's figure)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRule:
    """Bytes that come with each byte of weights beside the gradient.

    fp16 training keeps fp32 main weights (``main`` 2) and two fp32 moments (``optimizer`` 4); fp32 training 0 and 2.
    """

    main: float = 2.0
    optimizer: float = 4.0

    @property
    def per_weight(self) -> float:
        """Weights, main weights, gradients and optimizer state together."""
        return 2.0 + self.main + self.optimizer


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSpeeds:
    """Point-to-point GB/s of messages of 1, 2, 4 … MB inside a node and between nodes."""

    intra_gbps: tuple[float, ...]
    inter_gbps: tuple[float, ...]

    def transfer_us(self, size_mb: float, by_network: bool) -> float:
        """Microseconds to send ``size_mb``: the entry one below floor(log2 size), as Aceso's model reads its table.

        Its model reads the table from the end for less than half a megabyte; tiny messages stay at the first entry.
        """
        if size_mb <= 0:
            return 0.0
        speeds = self.inter_gbps if by_network else self.intra_gbps
        entry = int(math.log(size_mb, 2))
        entry = entry - 1 if entry >= 1 else entry
        return size_mb / (speeds[max(-len(speeds), min(entry, len(speeds) - 1))] * 0.001)


@dataclass(frozen=True, kw_only=True)
class CostTables:
    """Costs of the kinds of one chain on one sort of device.

    ``activation_scale``: share of an operator's activation that really is its own (a softmax done in place: 0).
    ``layout_in``, ``layout_out``: per kind, one layout per variant. ``collectives_ms``: (collective, group) to
    {rounded MB: ms}. ``mixes``: whether operators of one stage may be split differently; only where resharding is
    priced, else a search would be told that moving data is free.
    """

    chain: OpChain
    micro_batches: tuple[int, ...]
    tp_degrees: tuple[int, ...]
    fwd_us: Floats
    bwd_us: Floats
    input_mb: Floats
    output_mb: Floats
    weight_mb: Floats
    activation_mb: Floats
    fwd_reserved_mb: Floats
    bwd_reserved_mb: Floats
    activation_scale: Floats
    layout_in: tuple[tuple[TensorLayout | None, ...], ...]
    layout_out: tuple[tuple[TensorLayout | None, ...], ...]
    links: TransferSpeeds
    memory: MemoryRule = field(default_factory=MemoryRule)
    collectives_ms: Mapping[tuple[Collective, int], Mapping[int, float]] = field(default_factory=dict)
    mixes: bool = True
    source: str = ""

    def __post_init__(self) -> None:
        shape = (len(self.chain.kinds), len(self.micro_batches), len(self.tp_degrees))
        for name in COLUMNS:
            given = getattr(self, name).shape
            if given[:3] != shape or given != self.fwd_us.shape:
                raise PlanError(f"table {name} of shape {given}", f"{shape} and the number of variants")

    @property
    def variants(self) -> int:
        return int(self.fwd_us.shape[3])

    def restricted(self, sizes: tuple[int, ...]) -> "CostTables":
        """The same tables with only some of the micro-batches per device."""
        kept = [size for size in self.micro_batches if size in sizes]
        if not kept:
            raise PlanError(f"micro-batches {sizes}", f"some of {self.micro_batches}")
        index = [self.micro_batches.index(size) for size in kept]
        columns = {name: getattr(self, name)[:, index] for name in COLUMNS}
        return replace(self, micro_batches=tuple(kept), **columns)

    def micro_batch_index(self, size: int) -> int | None:
        return self.micro_batches.index(size) if size in self.micro_batches else None

    def tp_index(self, tp: int) -> int | None:
        return self.tp_degrees.index(tp) if tp in self.tp_degrees else None

    def reshard_us(self, before: "OpState", after: "OpState") -> tuple[float, float]:
        """Microseconds of moving data between two consecutive operators: forward, backward."""
        if not self.mixes:
            return 0.0, 0.0
        move = reshard(
            self.layout_out[before.kind][before.variant], (before.tp, before.dp),
            self.layout_in[after.kind][after.variant], (after.tp, after.dp),
        )  # fmt: skip
        if move is None:
            return 0.0, 0.0
        batch, degree = self.micro_batch_index(after.micro_batch), self.tp_index(after.tp)
        if batch is None or degree is None:
            return FORBIDDEN_MS * 1000, FORBIDDEN_MS * 1000
        return self._moved_us(move, float(self.input_mb[after.kind, batch, degree, after.variant]))

    def _moved_us(self, move: Reshard, size_mb: float) -> tuple[float, float]:
        return (
            1000 * self._collective_ms(move.forward, move.group, size_mb),
            1000 * self._collective_ms(move.backward, move.group, size_mb),
        )

    def _collective_ms(self, collective: Collective, group: int, size_mb: float) -> float:
        if collective is Collective.SPLIT:
            return 0.0
        measured = self.collectives_ms.get((collective, group), {})
        if math.isnan(size_mb):
            return FORBIDDEN_MS
        return measured.get(round(size_mb), measured.get(round(size_mb - 1), FORBIDDEN_MS))


@dataclass(frozen=True, slots=True)
class OpState:
    """One operator as a plan runs it."""

    kind: int
    tp: int
    dp: int
    variant: int
    micro_batch: int
