"""What every search is given, and the choices it has."""

from dataclasses import dataclass
from functools import cached_property

from penstock.core import ParallelPlan, PlanError
from penstock.parallel.cost_model import Evaluation, evaluate, evaluate_repaired
from penstock.parallel.devices import STAGE_DEVICES, Mesh
from penstock.parallel.operators import CostTables


@dataclass(frozen=True, slots=True)
class Split:
    """One way to use the devices of a stage: tensors split ``tp`` ways, samples ``dp`` ways."""

    tp: int
    dp: int
    micro_batch: int
    """Samples per device."""

    @property
    def devices(self) -> int:
        return self.tp * self.dp


@dataclass(frozen=True)
class Problem:
    """Split the model of ``tables`` over ``mesh`` for batches of ``global_batch`` samples."""

    tables: CostTables
    mesh: Mesh
    global_batch: int

    def __post_init__(self) -> None:
        if self.global_batch < 1:
            raise PlanError(f"a global batch of {self.global_batch}", "1 or more samples")
        if not self.micro_batches:
            raise PlanError(
                f"a global batch of {self.global_batch}",
                f"a multiple of one of the measured micro-batches {', '.join(map(str, self.tables.micro_batches))}",
            )

    @property
    def ops(self) -> int:
        return self.tables.chain.size

    @cached_property
    def stage_devices(self) -> tuple[int, ...]:
        return tuple(n for n in STAGE_DEVICES if n <= self.mesh.per_node)

    @cached_property
    def micro_batches(self) -> tuple[int, ...]:
        """Samples of one micro-batch over all replicas: any measured size times any data-parallel degree."""
        sizes = {size * dp for size in self.tables.micro_batches for dp in self.stage_devices}
        return tuple(sorted(size for size in sizes if self.global_batch % size == 0))

    def splits(self, micro_batch: int, devices: int) -> tuple[Split, ...]:
        """Ways to use ``devices`` devices for micro-batches of ``micro_batch``."""
        found = []
        for tp in self.tables.tp_degrees:
            dp = devices // tp
            if dp and devices % tp == 0 and micro_batch % dp == 0:
                size = micro_batch // dp
                if size in self.tables.micro_batches:
                    found.append(Split(tp, dp, size))
        return tuple(found)

    def evaluate(self, plan: ParallelPlan) -> Evaluation:
        return evaluate(plan, self.tables, self.mesh)

    def evaluate_repaired(self, plan: ParallelPlan) -> Evaluation:
        return evaluate_repaired(plan, self.tables, self.mesh)


@dataclass(frozen=True, slots=True)
class FoundPlan:
    """A plan, its cost and when it was found, in seconds since the search began."""

    plan: ParallelPlan
    cost: Evaluation
    at_s: float

    @property
    def iteration_s(self) -> float:
        return self.cost.iteration_s
