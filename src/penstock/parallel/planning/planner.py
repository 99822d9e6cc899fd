"""From a model and a cluster to a plan: tables, uniform plans, search, polish, and a ranking that counts everything.

The search optimises stages under Aceso's model; what that model leaves out (gradient synchronisation, the optimizer,
sharded state, waiting for the slowest device) decides between the plans it found and the uniform ones.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from penstock.core import ParallelPlan, PipelineSchedule, PlanError, format_bytes
from penstock.parallel.captured import ModuleFamily, ModuleTables
from penstock.parallel.cost_model import StageCost
from penstock.parallel.devices import USABLE, ChipMesh, PricedMesh, Trainer
from penstock.parallel.families import Family
from penstock.parallel.full_cost import Prediction, StageKey, predict
from penstock.parallel.operator_costs import SequenceSplit, TableMaker, best_split
from penstock.parallel.operators import CostTables, MemoryRule
from penstock.parallel.planning.candidates import Candidate, Planned, Ranking
from penstock.parallel.planning.own_plan import sizes_of
from penstock.parallel.planning.polish import polished
from penstock.parallel.planning.uniform_plans import (
    GRID_RECOMPUTE,
    ZERO_STAGES,
    Degrees,
    Recompute,
    grid,
    plan_of,
)
from penstock.parallel.search import FoundPlan, Problem, search
from penstock.predict import Precision

MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64)
SEARCHED_MICRO_BATCHES = (1, 2, 4, 8)
IMAGE_MICRO_BATCHES = (8, 16, 32, 64)
LONG_SEQUENCE = 16_384
"""From this many tokens on, plans may split sequences over devices."""
CHUNKS = (2, 3, 4, 6, 8)
"""Of a stage under the interleaved schedule."""
SHARDS = 4
"""How often the search may think optimizer state is divided, where ZeRO would divide it."""
SEARCHING = 0.6
"""Share of the time after the uniform grid for the search; the rest polishes what both found."""
POLISHED = 40
KEPT = 8
"""Plans that are reported beside the best."""


TableKey = tuple[bool, int, int]
"""Sequence parallelism, ways a sequence is split, ways experts are divided: what tables depend on."""


def any_plan(_: ParallelPlan) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class Planner:
    """One problem; keeps the tables that plans of different sorts have in common."""

    family: Family
    mesh: ChipMesh
    batch: int
    schedules: tuple[PipelineSchedule, ...] = ()
    accepts: Callable[[ParallelPlan], bool] = any_plan
    """Which plans are of use at all."""
    trainer: Trainer | None = None
    sizes: tuple[int, ...] = ()
    """Micro-batches per device to price; those worth trying where it is empty."""
    splits: tuple[int, ...] = ()
    """Tensor-parallel degrees, likewise."""
    _tables: dict[TableKey, CostTables] = field(default_factory=dict, repr=False)
    _seen: dict[TableKey, dict[StageKey, StageCost]] = field(default_factory=dict, repr=False)

    @cached_property
    def precision(self) -> Precision:
        return Precision.FP32 if self.family.element_bytes == 4 else Precision.FP16

    @cached_property
    def priced(self) -> PricedMesh:
        return self.mesh.priced(self.precision, self.trainer)

    @cached_property
    def tp_degrees(self) -> tuple[int, ...]:
        """Powers of two inside a node that cut the heads evenly."""
        if self.splits or not self.family.tensor_parallel:
            return self.splits or (1,)
        heads = self.family.heads or 1
        return tuple(
            n for n in (1, 2, 4, 8, 16) if n <= self.mesh.per_node and (not self.family.heads or heads % n == 0)
        )

    @cached_property
    def micro_batches(self) -> tuple[int, ...]:
        known = self.sizes or self.family.micro_batches
        sizes = known or (IMAGE_MICRO_BATCHES if self.family.style == "resnet" else MICRO_BATCHES)
        fitting = tuple(size for size in sizes if self.batch % size == 0)
        return fitting or (1,)

    @cached_property
    def contexts(self) -> tuple[int, ...]:
        if self.family.tokens < LONG_SEQUENCE or not self.family.heads or self.family.style == "t5":
            return (1,)
        return tuple(n for n in (1, 2, 4, 8, 16, 32) if n <= self.mesh.devices and self.family.tokens % (2 * n) == 0)

    def tables(self, sequence_parallel: bool, context: int, experts: int = 1) -> CostTables:
        key = sequence_parallel, context, experts
        if key not in self._tables:
            maker = self._maker(*key)
            self._tables[key] = maker.tables(self.micro_batches, self.tp_degrees)
        return self._tables[key]

    def _maker(self, sequence_parallel: bool, context: int, experts: int) -> TableMaker:
        device, fabric, per_node = self.priced.device, self.priced.fabric, self.mesh.per_node
        if isinstance(self.family, ModuleFamily):
            from penstock.predict import profile_named

            profile = profile_named(self.mesh.chip.name)
            return ModuleTables(family=self.family, device=device, fabric=fabric, per_node=per_node, profile=profile)
        return TableMaker(
            family=self.family, device=device, fabric=fabric, per_node=per_node,
            sequence_parallel=sequence_parallel, sequence=self.sequence(context), experts=experts,
            overlaps_tensors=sequence_parallel and self.priced.trainer.overlaps_tensors,
        )  # fmt: skip

    def sequence(self, context: int) -> SequenceSplit:
        device = self.priced.device
        return best_split(
            context, self.family, self.priced.fabric, self.mesh.per_node, device.peak * device.compute_share
        )

    def predict(self, plan: ParallelPlan) -> Prediction:
        key = plan.sequence_parallel, plan.context, plan.experts
        return predict(
            plan, self.tables(*key), self.priced,
            tied_bytes=self.family.element_bytes * self.family.tied, sample_flops=self.family.training_flops,
            seen=self._seen.setdefault(key, {}),
        )  # fmt: skip

    def fits(self, prediction: Prediction) -> bool:
        return prediction.memory_bytes <= self.mesh.memory_bytes

    def run(self, seconds: float, on_better: Callable[[Candidate], None] | None = None) -> Planned:
        """Uniform plans first, all of them, then the search and polish with what is left of the time.

        The time counts from when the costs are known: predicting kernels comes before it.
        """
        self.tables(False, 1)
        started = time.perf_counter()
        end = started + seconds
        board = Ranking(on_better, self.accepts)
        nearest: Prediction | None = None
        for candidate in self.uniform_plans():
            if self.fits(candidate.prediction):
                board.offer(candidate)
            elif nearest is None or candidate.prediction.memory_bytes < nearest.memory_bytes:
                nearest = candidate.prediction
        uniform = board.best
        for candidate in self._searched(SEARCHING * (end - time.perf_counter())):
            board.offer(candidate)
        for candidate in self._polished(board.ranked()[:POLISHED], end - time.perf_counter()):
            board.offer(candidate)
        if board.best is None:
            raise self._does_not_fit(nearest)
        return Planned(
            family=self.family, mesh=self.mesh, best=board.best, uniform=uniform,
            others=tuple(board.ranked()[1 : 1 + KEPT]), tried=board.tried, bound_s=self.bound_s(),
            seconds=time.perf_counter() - started, costs_from=self.tables(False, 1).source,
        )  # fmt: skip

    def evaluated(self, plan: ParallelPlan) -> Planned:
        """A plan that somebody else made, priced with tables of its own sizes."""
        started = time.perf_counter()
        splits, sizes = sizes_of(plan)
        own = replace(self, sizes=sizes, splits=splits, _tables={}, _seen={})
        candidate = Candidate(origin="own", plan=plan, prediction=own.predict(plan))
        tables = own.tables(plan.sequence_parallel, plan.context, plan.experts)
        return Planned(
            family=self.family, mesh=self.mesh, best=candidate, uniform=None, others=(), tried={"own": 1},
            bound_s=self.bound_s(), seconds=time.perf_counter() - started, costs_from=tables.source,
        )  # fmt: skip

    def uniform_plans(self) -> Iterator[Candidate]:
        """The grid; a cell that fits in no way is there with its heaviest measures."""
        cells = grid(
            self.mesh.devices, self.mesh.per_node, self.batch, tp_degrees=self.tp_degrees,
            micro_batches=self.micro_batches, contexts=self.contexts,
        )  # fmt: skip
        for degrees in cells:
            yield from self._cell(degrees)

    def _cell(self, degrees: Degrees) -> Iterator[Candidate]:
        """The lightest measures that fit, for every schedule; if none does, the heaviest, to say what is missing."""
        plain = self._uniform_plan(degrees, Recompute.NONE, 0)
        if plain is None:
            return
        for experts in self._expert_splits(degrees):
            yield from self._lightest(degrees, PipelineSchedule.ONE_F_ONE_B, 1, experts)
            for schedule, chunks in self._other_schedules(plain):
                for candidate in self._lightest(degrees, schedule, chunks, experts):
                    if self.fits(candidate.prediction):
                        yield candidate

    def _expert_splits(self, degrees: Degrees) -> tuple[int, ...]:
        """Ways to divide experts over replicas: powers of two that divide both."""
        if not self.family.experts:
            return (1,)
        replicas = degrees.dp * degrees.context
        ways = (1, 2, 4, 8, 16, 32, 64)
        return tuple(n for n in ways if self.family.experts % n == 0 and replicas % n == 0)

    def _lightest(self, degrees: Degrees, schedule: PipelineSchedule, chunks: int, experts: int) -> Iterator[Candidate]:
        candidate = None
        for recompute in GRID_RECOMPUTE:
            for zero in ZERO_STAGES if degrees.dp * degrees.context > 1 else (0,):
                if zero == 3 and degrees.pp > 1:
                    continue
                plan = self._uniform_plan(degrees, recompute, zero)
                if plan is None:
                    return
                plan = replace(plan, schedule=schedule, interleave=chunks, experts=experts)
                candidate = Candidate(origin="uniform", plan=plan, prediction=self.predict(plan))
                if self.fits(candidate.prediction):
                    yield candidate
                    yield from self._also_sharded(candidate)
                    break
            else:
                continue
            if candidate.plan.zero < 3:
                return
        if candidate is not None and not self.fits(candidate.prediction):
            yield candidate

    def _also_sharded(self, candidate: Candidate) -> Iterator[Candidate]:
        """With its optimizer state sharded although it need not be: each device then updates a part only."""
        if candidate.plan.zero == 0 and any(max(stage.dp) > 1 for stage in candidate.plan.stages):
            plan = replace(candidate.plan, zero=1)
            yield Candidate(origin=candidate.origin, plan=plan, prediction=self.predict(plan))

    def _uniform_plan(self, degrees: Degrees, recompute: Recompute, zero: int) -> ParallelPlan | None:
        return plan_of(
            degrees, self.tables(False, 1).chain, self.family, self.batch, recompute=recompute, zero=zero,
            sequence_parallel=bool(self.family.heads),
        )  # fmt: skip

    def _searched(self, seconds: float) -> Iterator[Candidate]:
        """Plans the search found on the way, each also with sharded optimizer state."""
        if seconds <= 0:
            return
        sequence_parallel = bool(self.family.heads)
        for one in self._found(_restricted(self.tables(sequence_parallel, 1)), seconds):
            split = any(max(stage.tp) > 1 for stage in one.plan.stages)
            plan = replace(one.plan, sequence_parallel=sequence_parallel and split)
            for zero in (0, 1) if any(max(stage.dp) > 1 for stage in plan.stages) else (0,):
                sharded = replace(plan, zero=zero)
                candidate = Candidate(origin="search", plan=sharded, prediction=self.predict(sharded))
                if self.fits(candidate.prediction):
                    yield candidate
                    yield from self._variants(candidate)

    def _found(self, tables: CostTables, seconds: float) -> list[FoundPlan]:
        """Best first. The search's memory rule knows no sharding: half of the time it is told of lighter state."""
        found: list[FoundPlan] = []
        for shards in (1, SHARDS):
            rule = MemoryRule(main=tables.memory.main / shards, optimizer=tables.memory.optimizer / shards)
            try:
                problem = Problem(replace(tables, memory=rule), self.mesh, self.batch)
            except PlanError:
                return []
            found += search(problem, seconds / 2).curve
        return sorted(found, key=lambda one: one.cost.iteration_s)

    def _polished(self, candidates: Sequence[Candidate], seconds: float) -> Iterator[Candidate]:
        """The best plans so far, each climbed from for at most half of the time that is left."""
        end = time.perf_counter() + seconds
        for candidate in candidates:
            until = (time.perf_counter() + end) / 2
            plan, prediction = polished(candidate.plan, candidate.prediction, self._if_it_fits, until)
            if plan != candidate.plan:
                yield Candidate(origin="polish", plan=plan, prediction=prediction)

    def _if_it_fits(self, plan: ParallelPlan) -> Prediction | None:
        prediction = self.predict(plan)
        return prediction if self.fits(prediction) else None

    def _variants(self, candidate: Candidate) -> Iterator[Candidate]:
        """The same plan under other schedules, where they apply and fit."""
        for schedule, chunks in self._other_schedules(candidate.plan):
            plan = replace(candidate.plan, schedule=schedule, interleave=chunks)
            other = Candidate(origin=candidate.origin, plan=plan, prediction=self.predict(plan))
            if self.fits(other.prediction):
                yield other

    def _other_schedules(self, plan: ParallelPlan) -> Iterator[tuple[PipelineSchedule, int]]:
        if len(plan.stages) < 2:
            return
        for schedule in self.schedules:
            for chunks in self._chunks(plan) if schedule is PipelineSchedule.INTERLEAVED else (1,):
                yield schedule, chunks

    def _chunks(self, plan: ParallelPlan) -> tuple[int, ...]:
        """Chunks per stage that trainers take: rounds of micro-batches that the stages divide, and a layer for each.

        The embedding and the loss may be chunks of their own.
        """
        starts = self.tables(False, 1).chain.starts_layer
        layers = [int(np.count_nonzero(starts[start:stop])) for start, stop in pairwise(plan.cuts)]
        layers[0], layers[-1] = layers[0] + 1, layers[-1] + 1
        if plan.micro_batches % len(plan.stages):
            return ()
        return tuple(chunks for chunks in CHUNKS if chunks <= min(layers))

    def bound_s(self) -> float:
        """All devices on the cheapest way to run every operator, without waiting, recomputing or synchronising."""
        tables = self.tables(bool(self.family.heads), 1)
        sizes = np.array(tables.micro_batches)[None, :, None, None]
        degrees = np.array(tables.tp_degrees)[None, None, :, None]
        device_us = (tables.fwd_us + tables.bwd_us) * degrees / sizes
        cheapest = np.nanmin(device_us.reshape(len(tables.chain.kinds), -1), axis=1)
        return float(cheapest[tables.chain.ops].sum()) / 1e6 * self.batch / self.mesh.devices

    def _does_not_fit(self, nearest: Prediction | None) -> PlanError:
        allowed = f"{format_bytes(self.mesh.memory_bytes)} per device on {self.mesh.name}"
        if nearest is None:
            return PlanError(
                f"no way to split {self.family.name} over {self.mesh.devices} devices with a global batch of "
                f"{self.batch}",
                "a batch that micro-batches and replicas divide, and at least as many layers as stages",
                f"Try a multiple of {self.mesh.devices}",
            )
        short = nearest.memory_bytes - self.mesh.memory_bytes
        more = self._enough_devices()
        ways = [f"{more} such devices"] if more else []
        ways += [f"devices with {format_bytes(nearest.memory_bytes / USABLE)}"]
        ways += ["a shorter --seq"] if self.family.tokens > 1 else []
        return PlanError(
            f"{self.family.name} does not fit: with full recomputation, sharded state and the smallest micro-batch it "
            f"needs {format_bytes(nearest.memory_bytes)} per device, {format_bytes(short)} too much",
            allowed, f"{', '.join(ways)} or a smaller model would fit",
        )  # fmt: skip

    def _enough_devices(self) -> int | None:
        """The least number of devices, by doubling the nodes, on which a uniform plan fits."""
        for factor in (2, 4, 8, 16, 32, 64):
            larger = replace(self, mesh=replace(self.mesh, nodes=factor * self.mesh.nodes), _tables={}, _seen={})
            if any(larger.fits(candidate.prediction) for candidate in larger.uniform_plans()):
                return larger.mesh.devices
        return None


def _restricted(tables: CostTables) -> CostTables:
    """Tables with the micro-batches worth searching operator by operator."""
    kept = tuple(size for size in tables.micro_batches if size in (*SEARCHED_MICRO_BATCHES, *IMAGE_MICRO_BATCHES))
    return tables.restricted(kept[:4])
