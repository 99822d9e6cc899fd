"""A configuration as Aceso's search sees it: a plan, what it costs, and where its time goes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from bench.aceso.greedy import with_recompute
from penstock.core import ParallelPlan, ParallelStage
from penstock.parallel.cost_model import Evaluation, StageCost, stage_cost
from penstock.parallel.search.problem import Problem

UNMEASURED_US = 1_000_000.0
"""What the original takes for an operator that was not measured."""


@dataclass(frozen=True, eq=False)
class AcesoConfig:
    """Derived figures per stage: ``compute_ms`` without transfers, ``ideal_ms`` what its work would take on its
    devices without loss, ``loss_ms`` what splitting costs, ``slack`` device-time it could still take on."""

    space: "Space"
    plan: ParallelPlan
    cost: Evaluation

    @property
    def stages(self) -> tuple[ParallelStage, ...]:
        return self.plan.stages

    @property
    def key(self) -> tuple[int, tuple[ParallelStage, ...]]:
        return self.plan.micro_batch, self.plan.stages

    @property
    def fits(self) -> bool:
        return self.cost.fits(self.space.problem.mesh)

    @property
    def times_ms(self) -> tuple[float, ...]:
        return self.cost.stage_ms

    @cached_property
    def time_ms(self) -> float:
        return max(self.times_ms)

    @cached_property
    def device_ms(self) -> float:
        """Time of all devices together."""
        return sum(
            cost.time_us / 1000 * stage.devices for cost, stage in zip(self.cost.stages, self.stages, strict=True)
        )

    @cached_property
    def memories_mb(self) -> list[float]:
        return [stage.memory_mb for stage in self.cost.stages]

    @property
    def memory_mb(self) -> float:
        return max(self.memories_mb)

    @cached_property
    def compute_ms(self) -> list[float]:
        return [(cost.forward_us + cost.backward_us + cost.recompute_us) / 1000 for cost in self.cost.stages]

    @cached_property
    def recompute_ms(self) -> list[float]:
        return [cost.recompute_us / 1000 for cost in self.cost.stages]

    @cached_property
    def ideal_ms(self) -> list[float]:
        return [work / stage.devices for work, stage in zip(self._alone_ms, self.stages, strict=True)]

    @cached_property
    def loss_ms(self) -> list[float]:
        return [
            (cost.forward_us + cost.backward_us) / 1000 - ideal
            for cost, ideal in zip(self.cost.stages, self.ideal_ms, strict=True)
        ]

    @cached_property
    def slack(self) -> list[float]:
        return [self._slack(number) for number in range(len(self.stages))]

    def _slack(self, number: int) -> float:
        cost, stage = self.cost.stages[number], self.stages[number]
        idle = self.time_ms - self.times_ms[number]
        if any(stage.recompute):
            idle = idle / 2
        else:
            limit = self.space.problem.mesh.memory_mb
            by_memory = (limit - cost.memory_mb) / cost.memory_mb * self.times_ms[number]
            idle = idle if by_memory > idle else by_memory + (idle - by_memory) / 2
        efficiency = self._alone_ms[number] / (cost.time_us / 1000 * stage.devices)
        return idle * stage.devices * efficiency

    @cached_property
    def _alone_ms(self) -> list[float]:
        return [
            self.space.alone_ms(start, stage, self.plan.micro_batch)
            for start, stage in zip(self.plan.cuts, self.stages, strict=False)
        ]


@dataclass(frozen=True)
class Space:
    """The problem with the memory of stages that were evaluated before, as the original keeps them."""

    problem: Problem
    _costs: dict[tuple[int, ParallelStage, int, int, bool, bool], StageCost] = field(default_factory=dict, repr=False)
    _recomputed: dict[tuple[int, ParallelStage, int, int], ParallelStage] = field(default_factory=dict, repr=False)

    @property
    def micro_batches(self) -> tuple[int, ...]:
        """Aceso lets a micro-batch over all replicas have only the sizes measured for one device."""
        return tuple(size for size in self.problem.tables.micro_batches if self.problem.global_batch % size == 0)

    @property
    def most_tp(self) -> int:
        return min(self.problem.mesh.per_node, max(self.problem.tables.tp_degrees))

    def config(self, micro_batch: int, stages: Sequence[ParallelStage]) -> AcesoConfig:
        """The stages as they are, evaluated."""
        plan = ParallelPlan(
            model=self.problem.tables.chain.model, global_batch=self.problem.global_batch, micro_batch=micro_batch,
            stages=tuple(stages),
        )  # fmt: skip
        mesh, offset, costs = self.problem.mesh, 0, []
        for number, stage in enumerate(plan.stages):
            end = offset + stage.devices
            far = mesh.enters_by_network(offset), mesh.leaves_by_network(end)
            costs.append(self._cost(plan.cuts[number], stage, micro_batch, len(stages) - 1 - number, *far))
            offset = end
        return AcesoConfig(self, plan, Evaluation(stages=tuple(costs), micro_batches=plan.micro_batches))

    def estimate(self, start: int, stage: ParallelStage, micro_batch: int, later: int) -> StageCost:
        """The quick look at one stage, with all transfers inside a node."""
        return self._cost(start, stage, micro_batch, later, False, False)

    def recomputed(self, start: int, stage: ParallelStage, micro_batch: int, later: int) -> ParallelStage:
        bare = replace(stage, recompute=(False,) * stage.ops)
        key = start, bare, micro_batch, later
        if key not in self._recomputed:
            limit = self.problem.mesh.memory_mb
            self._recomputed[key] = with_recompute(self.problem.tables, start, bare, micro_batch, later, limit)
        return self._recomputed[key]

    def all_recomputed(self, micro_batch: int, stages: Sequence[ParallelStage]) -> list[ParallelStage]:
        start, found = 0, []
        for number, stage in enumerate(stages):
            found.append(self.recomputed(start, stage, micro_batch, len(stages) - 1 - number))
            start += stage.ops
        return found

    def alone_ms(self, start: int, stage: ParallelStage, micro_batch: int) -> float:
        """Forward and backward of the stage's operators on one device with the whole micro-batch."""
        tables = self.problem.tables
        batch = tables.micro_batches.index(micro_batch)
        at = tables.chain.ops[start : start + stage.ops], batch, 0, np.array(stage.variant)
        return float(np.nan_to_num(tables.fwd_us[at] + tables.bwd_us[at], nan=2 * UNMEASURED_US).sum()) / 1000

    def runnable(self, start: int, stage: ParallelStage, micro_batch: int) -> bool:
        """Whether all of the stage's operators were measured at their split."""
        tables = self.problem.tables
        sizes = [micro_batch // dp for dp in stage.dp]
        if any(size not in tables.micro_batches for size in sizes):
            return False
        batch = [tables.micro_batches.index(size) for size in sizes]
        degree = [tables.tp_degrees.index(tp) for tp in stage.tp]
        kinds = tables.chain.ops[start : start + stage.ops]
        return not bool(np.isnan(tables.fwd_us[kinds, batch, degree, np.array(stage.variant)]).any())

    def _cost(
        self, start: int, stage: ParallelStage, micro_batch: int, later: int, entering: bool, leaving: bool
    ) -> StageCost:
        key = start, stage, micro_batch, later, entering, leaving
        if key not in self._costs:
            self._costs[key] = stage_cost(
                self.problem.tables, start, stage, micro_batch, later=later, entering=entering, leaving=leaving
            )
        return self._costs[key]
