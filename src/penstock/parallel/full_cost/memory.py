"""Bytes a device holds under ZeRO, recomputation, sequence and context parallelism and every schedule."""

from dataclasses import dataclass, replace

import numpy as np

from penstock.core import ParallelStage
from penstock.parallel.cost_model import stage_cost
from penstock.parallel.full_cost.pipeline import in_flight
from penstock.parallel.full_cost.stage import MB, StageView

FP8_COPIES = 1.0
"""Bytes of fp8 weights that stay between micro-batches for each byte of weights: a copy by rows, one by columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMemory:
    """Bytes on every device of a stage.

    ``working``: the micro-batch at hand, what is being recomputed, and buffers of the kernels.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    working: float

    @property
    def total(self) -> float:
        return self.weights + self.gradients + self.optimizer + self.activations + self.working


def memory_of(view: StageView) -> StageMemory:
    """The searches' own memory model, with state sharded and activations counted for the plan's schedule."""
    plan, rule = view.plan, view.tables.memory
    if view.key not in view.seen:
        view.seen[view.key] = stage_cost(view.tables, view.start, _alone(view), plan.micro_batch, later=1)
    cost = view.seen[view.key]
    kept = cost.activations_mb * MB
    held = in_flight(view.number, len(plan.stages), plan.micro_batches, plan.schedule, plan.interleave)
    narrow = FP8_COPIES if view.mesh.trainer.fp8 else 0.0
    weights = gradients = state = 0.0
    for (_, size), count in view.weights.items():
        weights += count / size if plan.zero >= 3 else count * (1 + narrow)
        gradients += view.gradient_width * count / (size if plan.zero >= 2 else 1)
        state += count * (rule.main + rule.optimizer) / (size if plan.zero >= 1 else 1)
    buffers = cost.reserved_mb * MB if plan.zero < 3 else _gathered(view)
    return StageMemory(
        weights=weights, gradients=gradients, optimizer=state, activations=max(0.0, held - 1) * kept,
        working=cost.peak_mb * MB + buffers,
    )  # fmt: skip


def _gathered(view: StageView) -> float:
    """Of sharded weights the largest layer at work, the next one on its way and the gradient of one; and kernels'."""
    chain, tables = view.tables.chain, view.tables
    layer = np.cumsum(chain.starts_layer[view.start : view.start + view.stage.ops])
    largest = float(np.bincount(layer, view.read(tables.weight_mb)).max())
    kernels = float(view.read(tables.fwd_reserved_mb).max() + view.read(tables.bwd_reserved_mb).max())
    return MB * (kernels + (2.0 + view.gradient_width) * largest)


def _alone(view: StageView) -> ParallelStage:
    """The stage as the searches' model knows it: without the context axis, which the tables carry."""
    stage = view.stage
    return replace(stage, devices=stage.tp[0] * stage.dp[0]) if view.plan.context > 1 else stage
