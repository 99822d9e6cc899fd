"""From a model and a cluster to a plan: tables, uniform plans, search, polish, and a ranking that counts everything.

The search optimises stages under Aceso's model; what that model leaves out (gradient synchronisation, the optimizer,
sharded state, waiting for the slowest device) decides between the plans it found and the uniform ones.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from penstock.core import InputError, ParallelPlan, PipelineSchedule, PlanError, format_bytes, parse_bytes
from penstock.parallel.analytic import SequenceSplit, TableMaker, best_split
from penstock.parallel.captured import ModuleFamily, ModuleTables, is_module, module_family
from penstock.parallel.cost.aceso import StageCost
from penstock.parallel.devices.clusters import USABLE, PlanCluster, cluster_named
from penstock.parallel.families import Family, family_named
from penstock.parallel.full_cost import Prediction, Site, StageKey, predict
from penstock.parallel.polish import polished
from penstock.parallel.profiles import with_micro_batches
from penstock.parallel.search.anytime import search
from penstock.parallel.search.problem import Found, Problem
from penstock.parallel.tables import CostTables, MemoryRule
from penstock.parallel.uniform import ZERO_STAGES, Degrees, Recompute, grid, plan_of
from penstock.predict import Precision

MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64)
SEARCHED_MICRO_BATCHES = (1, 2, 4, 8)
IMAGE_MICRO_BATCHES = (8, 16, 32, 64)
LONG_SEQUENCE = 16_384
"""From this many tokens on, plans may split sequences over devices."""
SHARDS = 4
"""How often the search may think optimizer state is divided, where ZeRO would divide it."""
SEARCHING = 0.6
"""Share of the time after the uniform grid for the search; the rest polishes what both found."""
POLISHED = 40
KEPT = 8
"""Plans that are reported beside the best."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A plan, where it came from, and what is expected of it."""

    origin: str
    plan: ParallelPlan
    prediction: Prediction

    @property
    def iteration_s(self) -> float:
        return self.prediction.iteration_s


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The answer. ``uniform`` is the best plan a trainer's flags could say; ``tried`` counts plans by origin.

    ``bound_s``: no plan can be faster than all devices working on the cheapest split of every operator all the time.
    """

    family: Family
    cluster: PlanCluster
    best: Candidate
    uniform: Candidate | None
    others: tuple[Candidate, ...]
    tried: dict[str, int]
    bound_s: float
    seconds: float
    costs_from: str

    @property
    def plan(self) -> ParallelPlan:
        return self.best.plan

    @property
    def prediction(self) -> Prediction:
        return self.best.prediction

    @property
    def gap(self) -> float:
        """How far the plan is from the bound, as a share of the plan's time."""
        return 1.0 - self.bound_s / self.best.iteration_s

    @cached_property
    def export_only(self) -> str | None:
        """Why our runtime cannot run the plan, or None if it can."""
        return not_executable(self.plan)


def plan_for(
    model: str | Family, cluster: str | PlanCluster, *, batch: int, seq: int | None = None,
    memory: str | float | None = None, seconds: float = 10.0, schedules: Sequence[PipelineSchedule] = (),
    on_better: Callable[[Candidate], None] | None = None,
) -> Planned:  # fmt: skip
    """The fastest plan found within about ``seconds``.

    ``model``: a name, a ``config.json``, a script with ``penstock_model(batch)`` or ``module:function``; ``batch``: the
    global batch in samples; ``seq``: tokens per sample; ``memory``: bytes a plan may use per device ("28GB");
    ``schedules``: further pipeline schedules to consider beside 1F1B.
    """
    _check(batch, seconds)
    place = cluster if isinstance(cluster, PlanCluster) else cluster_named(cluster)
    family = _family(model, place, batch, seq)
    if memory is not None:
        place = place.limited(float(parse_bytes(memory)) if isinstance(memory, str) else memory)
    return Planner(family=family, cluster=place, batch=batch, schedules=tuple(schedules)).run(seconds, on_better)


def throughput_curve(
    model: str | Family, cluster: str | PlanCluster, counts: Sequence[int], *, batch: int, seq: int | None = None,
    memory: str | float | None = None, seconds: float = 10.0,
) -> dict[int, Planned | InputError]:  # fmt: skip
    """The best plan for each number of devices, or why there is none."""
    _check(batch, seconds)
    place = cluster if isinstance(cluster, PlanCluster) else cluster_named(cluster)
    family = _family(model, place, batch, seq)
    answers: dict[int, Planned | InputError] = {}
    for count in counts:
        part = place.part(count)
        try:
            answers[count] = plan_for(family, part, batch=batch, memory=memory, seconds=seconds / len(counts))
        except PlanError as problem:
            answers[count] = problem
    return answers


@dataclass(frozen=True, kw_only=True)
class Planner:
    """One problem; keeps the tables that plans of different sorts have in common."""

    family: Family
    cluster: PlanCluster
    batch: int
    schedules: tuple[PipelineSchedule, ...] = ()
    _tables: dict[tuple[bool, int], CostTables] = field(default_factory=dict, repr=False)
    _seen: dict[tuple[bool, int], dict[StageKey, StageCost]] = field(default_factory=dict, repr=False)

    @cached_property
    def precision(self) -> Precision:
        return Precision.FP32 if self.family.element_bytes == 4 else Precision.FP16

    @cached_property
    def site(self) -> Site:
        return self.cluster.site(self.precision)

    @cached_property
    def tp_degrees(self) -> tuple[int, ...]:
        """Powers of two inside a node that cut the heads evenly."""
        if not self.family.tensor_parallel:
            return (1,)
        heads = self.family.heads or 1
        return tuple(
            n for n in (1, 2, 4, 8, 16) if n <= self.cluster.per_node and (not self.family.heads or heads % n == 0)
        )

    @cached_property
    def micro_batches(self) -> tuple[int, ...]:
        known = self.family.micro_batches
        sizes = known or (IMAGE_MICRO_BATCHES if self.family.style == "resnet" else MICRO_BATCHES)
        fitting = tuple(size for size in sizes if self.batch % size == 0)
        return fitting or (1,)

    @cached_property
    def contexts(self) -> tuple[int, ...]:
        if self.family.tokens < LONG_SEQUENCE or not self.family.heads or self.family.style == "t5":
            return (1,)
        return tuple(n for n in (1, 2, 4, 8, 16, 32) if n <= self.cluster.devices and self.family.tokens % (2 * n) == 0)

    def tables(self, sequence_parallel: bool, context: int) -> CostTables:
        key = sequence_parallel, context
        if key not in self._tables:
            maker = self._maker(sequence_parallel, context)
            self._tables[key] = maker.tables(self.micro_batches, self.tp_degrees)
        return self._tables[key]

    def _maker(self, sequence_parallel: bool, context: int) -> TableMaker:
        device, network, per_node = self.site.device, self.site.network, self.cluster.per_node
        if isinstance(self.family, ModuleFamily):
            from penstock.predict import profile_named

            profile = profile_named(self.cluster.chip.name)
            return ModuleTables(family=self.family, device=device, network=network, per_node=per_node, profile=profile)
        return TableMaker(
            family=self.family, device=device, network=network, per_node=per_node,
            sequence_parallel=sequence_parallel, sequence=self.sequence(context),
        )  # fmt: skip

    def sequence(self, context: int) -> SequenceSplit:
        device = self.site.device
        return best_split(
            context, self.family, self.site.network, self.cluster.per_node, device.peak * device.compute_share
        )

    def predict(self, plan: ParallelPlan) -> Prediction:
        return predict(
            plan, self.tables(plan.sequence_parallel, plan.context), self.site,
            tied_bytes=self.family.element_bytes * self.family.tied, sample_flops=self.family.training_flops,
            seen=self._seen.setdefault((plan.sequence_parallel, plan.context), {}),
        )  # fmt: skip

    def fits(self, prediction: Prediction) -> bool:
        return prediction.memory_bytes <= self.cluster.memory_bytes

    def run(self, seconds: float, on_better: Callable[[Candidate], None] | None = None) -> Planned:
        """Uniform plans first, all of them, then the search and polish with what is left of the time.

        The time counts from when the costs are known: predicting kernels comes before it.
        """
        self.tables(False, 1)
        started = time.perf_counter()
        end = started + seconds
        board = _Board(on_better)
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
            family=self.family, cluster=self.cluster, best=board.best, uniform=uniform,
            others=tuple(board.ranked()[1 : 1 + KEPT]), tried=board.tried, bound_s=self.bound_s(),
            seconds=time.perf_counter() - started, costs_from=self.tables(False, 1).source,
        )  # fmt: skip

    def uniform_plans(self) -> Iterator[Candidate]:
        """The grid; a cell that fits in no way is there with its heaviest measures."""
        cells = grid(
            self.cluster.devices, self.cluster.per_node, self.batch, tp_degrees=self.tp_degrees,
            micro_batches=self.micro_batches, contexts=self.contexts,
        )  # fmt: skip
        for degrees in cells:
            yield from self._cell(degrees)

    def _cell(self, degrees: Degrees) -> Iterator[Candidate]:
        """The lightest measures that fit; if none does, the heaviest, to say how much is missing."""
        candidate = None
        for recompute in Recompute:
            for zero in ZERO_STAGES if degrees.dp * degrees.context > 1 else (0,):
                if zero == 3 and degrees.pp > 1:
                    continue
                candidate = self._uniform_candidate(degrees, recompute, zero)
                if candidate is None:
                    return
                if self.fits(candidate.prediction):
                    yield candidate
                    yield from self._variants(candidate)
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

    def _uniform_candidate(self, degrees: Degrees, recompute: Recompute, zero: int) -> Candidate | None:
        tables = self.tables(False, 1)
        plan = plan_of(
            degrees, tables.chain, self.family, self.batch, recompute=recompute, zero=zero,
            sequence_parallel=bool(self.family.heads),
        )  # fmt: skip
        if plan is None:
            return None
        return Candidate(origin="uniform", plan=plan, prediction=self.predict(plan))

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

    def _found(self, tables: CostTables, seconds: float) -> list[Found]:
        """Best first. The search's memory rule knows no sharding: half of the time it is told of lighter state."""
        found: list[Found] = []
        for shards in (1, SHARDS):
            rule = MemoryRule(main=tables.memory.main / shards, optimizer=tables.memory.optimizer / shards)
            try:
                problem = Problem(replace(tables, memory=rule), self.cluster.mesh(), self.batch)
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
        if len(candidate.plan.stages) < 2:
            return
        for schedule in self.schedules:
            chunks = 2 if schedule is PipelineSchedule.INTERLEAVED else 1
            plan = replace(candidate.plan, schedule=schedule, interleave=chunks)
            other = Candidate(origin=candidate.origin, plan=plan, prediction=self.predict(plan))
            if self.fits(other.prediction):
                yield other

    def bound_s(self) -> float:
        """All devices on the cheapest way to run every operator, without waiting, recomputing or synchronising."""
        tables = self.tables(bool(self.family.heads), 1)
        sizes = np.array(tables.micro_batches)[None, :, None, None]
        degrees = np.array(tables.tp_degrees)[None, None, :, None]
        device_us = (tables.fwd_us + tables.bwd_us) * degrees / sizes
        cheapest = np.nanmin(device_us.reshape(len(tables.chain.kinds), -1), axis=1)
        return float(cheapest[tables.chain.ops].sum()) / 1e6 * self.batch / self.cluster.devices

    def _does_not_fit(self, nearest: Prediction | None) -> PlanError:
        allowed = f"{format_bytes(self.cluster.memory_bytes)} per device on {self.cluster.name}"
        if nearest is None:
            return PlanError(
                f"no way to split {self.family.name} over {self.cluster.devices} devices with a global batch of "
                f"{self.batch}",
                "a batch that micro-batches and replicas divide, and at least as many layers as stages",
                f"Try a multiple of {self.cluster.devices}",
            )
        short = nearest.memory_bytes - self.cluster.memory_bytes
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
            larger = replace(
                self, cluster=replace(self.cluster, nodes=factor * self.cluster.nodes), _tables={}, _seen={}
            )
            if any(larger.fits(candidate.prediction) for candidate in larger.uniform_plans()):
                return larger.cluster.devices
        return None


class _Board:
    """The candidates so far, each plan once."""

    def __init__(self, on_better: Callable[[Candidate], None] | None) -> None:
        self._on_better = on_better
        self._all: dict[ParallelPlan, Candidate] = {}
        self.tried: dict[str, int] = {}
        self.best: Candidate | None = None

    def offer(self, candidate: Candidate) -> None:
        self.tried[candidate.origin] = self.tried.get(candidate.origin, 0) + 1
        self._all.setdefault(candidate.plan, candidate)
        if self.best is None or candidate.iteration_s < self.best.iteration_s:
            self.best = candidate
            if self._on_better:
                self._on_better(candidate)

    def ranked(self) -> list[Candidate]:
        return sorted(self._all.values(), key=lambda candidate: candidate.iteration_s)


def not_executable(plan: ParallelPlan) -> str | None:
    """Why our runtime cannot run ``plan``; the runtime itself knows, where it is installed."""
    try:
        from penstock.runtime import executable
    except ImportError:
        return "the runtime runs data-parallel plans only" if _is_split(plan) else None
    reason: str | None = executable(plan)
    return reason


def _is_split(plan: ParallelPlan) -> bool:
    return len(plan.stages) > 1 or plan.context > 1 or any(max(stage.tp) > 1 for stage in plan.stages)


def _restricted(tables: CostTables) -> CostTables:
    """Tables with the micro-batches worth searching operator by operator."""
    kept = tuple(size for size in tables.micro_batches if size in (*SEARCHED_MICRO_BATCHES, *IMAGE_MICRO_BATCHES))
    return with_micro_batches(tables, kept[:4])


def _family(model: str | Family, cluster: PlanCluster, batch: int, seq: int | None) -> Family:
    if isinstance(model, Family):
        return model
    if not is_module(model):
        return family_named(model, seq)
    if seq is not None:
        raise InputError(f"a sequence length for {model}", "none: the model brings its own inputs", "Leave --seq away")
    return module_family(model, batch, "cpu" if cluster.chip.name == "cpu" else "cuda")


def _check(batch: int, seconds: float) -> None:
    if batch < 1:
        raise InputError(f"a global batch of {batch}", "at least one sample")
    if not 0 < seconds <= 86_400:
        raise InputError(f"{seconds} seconds to search", "more than 0 and at most a day")
