"""What one micro-batch costs on one stage: reads the tables, adds what the searches' model leaves out."""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from penstock.core import ParallelPlan, ParallelStage, PlanError
from penstock.network import Group
from penstock.parallel.cost_model import StageCost
from penstock.parallel.devices import PricedMesh
from penstock.parallel.operators import CostTables, Floats, OpState

MB = float(2**20)
StageKey = tuple[bytes, tuple[int, ...], tuple[int, ...], tuple[bool, ...], tuple[int, ...], int]


@dataclass(frozen=True)
class StageView:
    """Stage ``number`` of a plan as indices into tables, and the devices it starts at."""

    plan: ParallelPlan
    tables: CostTables
    mesh: PricedMesh
    number: int
    seen: dict[StageKey, StageCost] = field(default_factory=dict, repr=False)
    """Stages whose memory is known; plans of one search share many."""

    @property
    def key(self) -> StageKey:
        """What decides the memory of one micro-batch."""
        stage = self.stage
        return self.kinds.tobytes(), stage.tp, stage.dp, stage.recompute, stage.variant, self.plan.micro_batch

    @property
    def stage(self) -> ParallelStage:
        return self.plan.stages[self.number]

    @property
    def offset(self) -> int:
        return sum(stage.devices for stage in self.plan.stages[: self.number])

    @property
    def start(self) -> int:
        return self.plan.cuts[self.number]

    @property
    def is_first(self) -> bool:
        return self.number == 0

    @property
    def is_last(self) -> bool:
        return self.number == len(self.plan.stages) - 1

    @cached_property
    def kinds(self) -> NDArray[np.int64]:
        return self.tables.chain.ops[self.start : self.start + self.stage.ops]

    @cached_property
    def _where(self) -> tuple[NDArray[np.int64], ...]:
        batch = _indices(self.plan.micro_batch // np.array(self.stage.dp), self.tables.micro_batches, "micro-batch")
        degree = _indices(np.array(self.stage.tp), self.tables.tp_degrees, "tensor-parallel degree")
        return self.kinds, batch, degree, np.array(self.stage.variant)

    def read(self, table: Floats) -> Floats:
        values: Floats = table[self._where]
        if np.isnan(values).any():
            name = self.tables.chain.kinds[self.kinds[int(np.isnan(values).argmax())]].name
            raise PlanError(f"stage {self.number} splits {name} in a way that has no cost", "a way in the tables")
        return values

    @cached_property
    def forward_s(self) -> float:
        return float(self.read(self.tables.fwd_us).sum()) / 1e6

    @cached_property
    def backward_s(self) -> float:
        return float(self.read(self.tables.bwd_us).sum()) / 1e6

    @cached_property
    def recompute_s(self) -> float:
        """Of runs of recomputed operators all but the last: what that one reads has been kept, it only ends the run."""
        again = np.array(self.stage.recompute, bool)
        needed = again & np.append(again[1:], False)
        return float(self.read(self.tables.fwd_us)[needed].sum()) / 1e6

    @cached_property
    def reshard_s(self) -> float:
        """Moving data between operators that are split differently; nothing in a uniform stage."""
        if self.stage.is_uniform or not self.tables.mixes:
            return 0.0
        sizes = (self.plan.micro_batch // np.array(self.stage.dp)).tolist()
        states = [
            OpState(*state)
            for state in zip(
                self.kinds.tolist(), self.stage.tp, self.stage.dp, self.stage.variant, sizes, strict=True
            )
        ]  # fmt: skip
        return sum(sum(self.tables.reshard_us(a, b)) for a, b in pairwise(states)) / 1e6

    @cached_property
    def transfer_s(self) -> float:
        """Activations in and gradients back over the two borders of the stage."""
        entering = 0.0 if self.is_first else self._crossing_s(float(self.read(self.tables.input_mb)[0]), 0)
        leaving = 0.0 if self.is_last else self._crossing_s(float(self.read(self.tables.output_mb)[-1]), -1)
        return entering + leaving

    def _crossing_s(self, size_mb: float, op: int) -> float:
        border = self.offset if op == 0 else self.offset + self.stage.devices
        by_network = border % self.mesh.per_node == 0
        tp = self.stage.tp[op]
        senders = min(self.stage.devices, self.mesh.per_node)
        if self.plan.sequence_parallel or not self.mesh.trainer.scatters_stage_inputs:
            return self.mesh.fabric.send_s(size_mb * MB, by_network=by_network, senders=senders)
        part = self.mesh.fabric.send_s(size_mb * MB / tp, by_network=by_network, senders=senders)
        return part + self.mesh.fabric.half_s(size_mb * MB, self.tensor_group(tp))

    @property
    def weight_bytes(self) -> float:
        """Of one element as the kernels read it."""
        return 4.0 if self.tables.memory.main == 0 else 2.0

    @property
    def gradient_width(self) -> float:
        """Bytes of a gradient for each byte of its weight."""
        return max(1.0, self.mesh.trainer.gradient_bytes / self.weight_bytes)

    def tensor_group(self, tp: int) -> Group:
        return Group(min(tp, self.mesh.per_node), max(1, tp // self.mesh.per_node))

    @cached_property
    def weights(self) -> dict[tuple[int, int], float]:
        """Bytes of weights on one device by (tp, number of devices that hold the same weights)."""
        sizes = self.read(self.tables.weight_mb) * MB
        divided = [self.plan.experts if self.tables.chain.kinds[kind].expert else 1 for kind in self.kinds.tolist()]
        held: dict[tuple[int, int], float] = {}
        for tp, dp, ways, size in zip(self.stage.tp, self.stage.dp, divided, sizes.tolist(), strict=True):
            key = tp, dp * self.plan.context // ways
            held[key] = held.get(key, 0.0) + size
        return held


def _indices(values: NDArray[np.int64], known: tuple[int, ...], what: str) -> NDArray[np.int64]:
    places = {value: index for index, value in enumerate(known)}
    try:
        return np.array([places[value] for value in values.tolist()], np.int64)
    except KeyError as missing:
        raise PlanError(f"a {what} of {missing} per device", f"one of {', '.join(map(str, known))}") from None
