"""A whole plan by the searches' cost model: which stage dictates the iteration, and how full the fullest device is."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.core import ParallelPlan, PlanError
from penstock.parallel.cost_model.stage import StageCost, repaired_stage_cost, stage_cost
from penstock.parallel.devices import Mesh
from penstock.parallel.operators import CostTables


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What the model says about a plan."""

    stages: tuple[StageCost, ...]
    micro_batches: int

    @cached_property
    def stage_ms(self) -> tuple[float, ...]:
        """The iteration time each stage would dictate: n - 1 times its own, and one micro-batch through all."""
        fill = sum(stage.time_us for stage in self.stages)
        return tuple((stage.time_us * (self.micro_batches - 1) + fill) / 1000 for stage in self.stages)

    @property
    def iteration_s(self) -> float:
        return max(self.stage_ms) / 1000

    @property
    def bottleneck(self) -> int:
        return int(np.argmax(self.stage_ms))

    @property
    def memory_mb(self) -> float:
        """Of the fullest device."""
        return max(stage.memory_mb for stage in self.stages)

    def fits(self, mesh: Mesh) -> bool:
        return self.memory_mb <= mesh.memory_mb


def evaluate(plan: ParallelPlan, tables: CostTables, mesh: Mesh) -> Evaluation:
    """Time and memory of ``plan``; a plan that cannot be carried out on ``mesh`` is a :class:`PlanError`."""
    return _evaluated(plan, tables, mesh, stage_cost)


def evaluate_repaired(plan: ParallelPlan, tables: CostTables, mesh: Mesh) -> Evaluation:
    """The same by the model without its quirks."""
    return _evaluated(plan, tables, mesh, repaired_stage_cost)


def _evaluated(plan: ParallelPlan, tables: CostTables, mesh: Mesh, cost_of: Callable[..., StageCost]) -> Evaluation:
    check(plan, tables, mesh)
    offset, costs = 0, []
    for number, stage in enumerate(plan.stages):
        end = offset + stage.devices
        costs.append(
            cost_of(
                tables, plan.cuts[number], stage, plan.micro_batch, later=len(plan.stages) - 1 - number,
                entering=mesh.enters_by_network(offset), leaving=mesh.leaves_by_network(end),
            )
        )  # fmt: skip
        offset = end
    return Evaluation(stages=tuple(costs), micro_batches=plan.micro_batches)


def check(plan: ParallelPlan, tables: CostTables, mesh: Mesh) -> None:
    """Whether the plan covers the model and its stages lie on the mesh."""
    if plan.ops != tables.chain.size:
        raise PlanError(f"a plan for {plan.ops} operators", f"the {tables.chain.size} of {tables.chain.model}")
    if plan.devices != mesh.devices:
        raise PlanError(f"a plan for {plan.devices} devices", f"the {mesh.devices} of the mesh")
    offset = 0
    for number, stage in enumerate(plan.stages):
        if not mesh.fits(offset, stage.devices):
            raise PlanError(
                f"stage {number} on devices {offset}..{offset + stage.devices - 1}", f"within nodes of {mesh.per_node}"
            )
        offset += stage.devices
