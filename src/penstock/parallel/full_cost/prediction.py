"""What an iteration of a plan takes, piece by piece: the model plans are finally ranked by.

The searches optimise Aceso's model, which prices stages and their pipeline. Here everything else is added: gradient
synchronisation and what of it is hidden, sharded optimizer state, the optimizer step, embeddings shared by the first
and the last stage, other schedules, and waiting for the slowest of many devices.
"""

from dataclasses import dataclass
from functools import cached_property

from penstock.core import ParallelPlan, PipelineSchedule
from penstock.parallel.cost_model import StageCost
from penstock.parallel.devices import PricedMesh
from penstock.parallel.full_cost.memory import StageMemory, memory_of
from penstock.parallel.full_cost.pipeline import StageTimes, iteration_s
from penstock.parallel.full_cost.stage import StageKey, StageView
from penstock.parallel.full_cost.sync import Sync, sync_of, tied_s
from penstock.parallel.operators import CostTables

WEIGHT_GRADIENT_SHARE = 0.5
"""Of a backward pass: one of its two products."""


@dataclass(frozen=True, kw_only=True)
class StagePrediction:
    """Seconds of one micro-batch, and of what happens once per iteration."""

    view: StageView
    forward_s: float
    backward_s: float
    recompute_s: float
    reshard_s: float
    transfer_s: float
    sync: Sync

    @cached_property
    def memory(self) -> StageMemory:
        return memory_of(self.view)

    @property
    def micro_batch_s(self) -> float:
        return (
            self.forward_s + self.backward_s + self.recompute_s + self.reshard_s + self.transfer_s
            + self.sync.per_micro_batch_s
        )  # fmt: skip

    @property
    def times(self) -> StageTimes:
        ahead = self.forward_s + (self.reshard_s + self.transfer_s) / 2
        return StageTimes(ahead, self.micro_batch_s - ahead, WEIGHT_GRADIENT_SHARE * self.backward_s)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """An iteration: ``pipeline_s`` of passes, then what is left of communication, then the optimizer."""

    plan: ParallelPlan
    stages: tuple[StagePrediction, ...]
    straggling: float
    tied_s: float
    training_flops: float
    """Of the whole batch, without recomputation; 0 where the model's work is not known."""
    peak: float
    """FLOP/s of all devices."""

    @cached_property
    def pipeline_s(self) -> float:
        times = [stage.times for stage in self.stages]
        return self.straggling * iteration_s(times, self.plan.micro_batches, self.plan.schedule, self.plan.interleave)

    @cached_property
    def exposed_sync_s(self) -> float:
        """Later stages end earlier and sum their gradients while earlier ones still work."""
        worst = slack = 0.0
        for stage in self.stages:
            waited = stage.sync.exposed_s - slack
            worst = max(worst, waited)
            slack += stage.backward_s if self.plan.schedule is not PipelineSchedule.GPIPE else 0.0
        return worst + max(stage.sync.gathered_s for stage in self.stages)

    @cached_property
    def optimizer_s(self) -> float:
        return max(stage.sync.optimizer_s for stage in self.stages)

    @cached_property
    def iteration_s(self) -> float:
        return self.pipeline_s + self.exposed_sync_s + self.tied_s + self.optimizer_s

    @property
    def bubble(self) -> float:
        """Share of the pipeline's time in which the slowest stage waits."""
        busy = max(stage.times.busy for stage in self.stages) * self.plan.micro_batches * self.straggling
        return 1.0 - busy / self.pipeline_s

    @property
    def bottleneck(self) -> int:
        return max(range(len(self.stages)), key=lambda number: self.stages[number].micro_batch_s)

    @property
    def memory_bytes(self) -> float:
        """Of the fullest device."""
        return max(stage.memory.total for stage in self.stages)

    @property
    def samples_per_s(self) -> float:
        return self.plan.global_batch / self.iteration_s

    @property
    def utilisation(self) -> float:
        """Model FLOPs utilisation; NaN where the model's work is not known."""
        return self.training_flops / self.iteration_s / self.peak if self.training_flops else float("nan")


def predict(
    plan: ParallelPlan, tables: CostTables, mesh: PricedMesh, *, tied_bytes: float = 0.0, sample_flops: float = 0.0,
    seen: dict[StageKey, StageCost] | None = None,
) -> Prediction:  # fmt: skip
    """What ``plan`` takes on ``mesh``; the tables must be made for the plan's sequence and context parallelism.

    ``seen`` remembers stages between predictions with the same tables.
    """
    known = {} if seen is None else seen
    views = [StageView(plan, tables, mesh, number, known) for number in range(len(plan.stages))]
    return Prediction(
        plan=plan, stages=tuple(_stage(view) for view in views), straggling=mesh.straggling(plan.devices),
        tied_s=tied_s(views[0], views[-1], tied_bytes), training_flops=sample_flops * plan.global_batch,
        peak=mesh.device.peak * plan.devices,
    )  # fmt: skip


def _stage(view: StageView) -> StagePrediction:
    chunks = view.plan.interleave if view.plan.schedule is PipelineSchedule.INTERLEAVED else 1
    return StagePrediction(
        view=view, forward_s=view.forward_s, backward_s=view.backward_s, recompute_s=view.recompute_s,
        reshard_s=view.reshard_s, transfer_s=view.transfer_s * chunks, sync=sync_of(view),
    )  # fmt: skip
