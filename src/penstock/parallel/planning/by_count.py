"""One plan for every number of devices a job may get: what an elastic scheduler needs to know of a large model.

The plans become a scaling curve, so that policies weigh a job that is split in stages and tensors like any other; each
point of the curve carries the plan the job is started with on so many devices.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from penstock.core import ParallelPlan, PlanError, Scaling, Source, fewest_nodes, why_not_executable
from penstock.network import fabric_of
from penstock.parallel.devices import USABLE, ChipMesh
from penstock.parallel.families import Family, family_named
from penstock.parallel.operator_costs import CALIBRATED, DeviceModel, ProfiledDevice
from penstock.parallel.planning.planner import Planner, any_plan
from penstock.predict import device_named

SECONDS_PER_COUNT = 2.0
"""The uniform grid is always finished; the search has what is left of it."""
DOUBT_PROFILED, DOUBT_FITTED, DOUBT_DATASHEET = 0.15, 0.25, 0.5
"""By how much a rate may turn out lower: a profiled device, constants fitted on its family, a data sheet alone. Most
of vTrain's 109 multi-node rows are within the second; what no measurement stands behind is planned with at half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedPlan:
    """The plan for one number of devices, the seconds a step is expected to take, and the share it may be slower by."""

    plan: ParallelPlan
    step_s: float
    doubt: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePool:
    """Where the devices of one kind come from: ``per_node`` of them share a node and have ``memory_bytes`` each.

    A memory of 0 means what the data sheet of the kind says.
    """

    kind: str
    per_node: int = 8
    memory_bytes: float = 0.0

    def mesh(self, count: int) -> ChipMesh:
        """``count`` devices on the fewest nodes."""
        chip, nodes = device_named(self.kind), fewest_nodes(count, self.per_node)
        if count % nodes:
            raise PlanError(f"{count} devices of nodes of {self.per_node}", "whole nodes, or part of one")
        memory = USABLE * min(chip.memory_bytes, self.memory_bytes or chip.memory_bytes)
        return ChipMesh(
            chip=chip, nodes=nodes, per_node=count // nodes, memory_bytes=memory, fabric=fabric_of(chip.link)
        )


def plans_by_count(
    model: str | Family, pool: str | DevicePool, counts: Iterable[int], *, batch: int, seq: int | None = None,
    seconds_per_count: float = SECONDS_PER_COUNT, accepts: Callable[[ParallelPlan], bool] = any_plan,
) -> dict[int, CountedPlan]:  # fmt: skip
    """The best plan found for each of ``counts`` devices of a kind; counts on which nothing fits are left out.

    ``accepts`` says which plans are of use, for instance :func:`trainable_plans` of the model. Raises
    :class:`~penstock.core.PlanError` with the reason of the largest count where no count has a plan.
    """
    family = model if isinstance(model, Family) else family_named(model, seq)
    source = pool if isinstance(pool, DevicePool) else DevicePool(kind=pool)
    found: dict[int, CountedPlan] = {}
    reason = PlanError(f"no number of devices to plan {family.name} for", "one or more")
    for count in sorted(set(counts)):
        try:
            planner = Planner(family=family, mesh=source.mesh(count), batch=batch, accepts=accepts)
            best = planner.run(seconds_per_count).best
        except PlanError as problem:
            reason = problem
        else:
            found[count] = CountedPlan(plan=best.plan, step_s=best.iteration_s, doubt=_doubt(planner.priced.device))
    if not found:
        raise reason
    return found


def scaling_of(plans: Mapping[int, CountedPlan]) -> Scaling:
    """The plans as a scaling: steps per second, predicted, with a plan for each count."""
    ordered = [plans[count] for count in sorted(plans)]
    return Scaling(
        counts=tuple(sorted(plans)), rates=tuple(1 / one.step_s for one in ordered), source=Source.PREDICTED,
        doubts=tuple(one.doubt for one in ordered), plans=tuple(one.plan for one in ordered),
    )  # fmt: skip


def trainable(family: Family) -> Family:
    """The model as our own trainer builds it; refuses one that it cannot build."""
    if family.style != "gpt" or family.feed_forward != 4 * family.hidden or family.kv_heads != family.heads:
        raise PlanError(
            f"our trainer cannot build {family.name}", "a GPT whose layers are four times as wide inside",
            "Give a script or command that reads the plan: its file stands for {plan}",
        )  # fmt: skip
    return family if family.name.startswith("gpt-") else replace(family, name=f"gpt-{family.name}")


def trainable_plans(family: Family) -> Callable[[ParallelPlan], bool]:
    """Whether our own trainer can run a plan for the model: what it can split, evenly."""

    def accepts(plan: ParallelPlan) -> bool:
        degrees = {tp for stage in plan.stages for tp in stage.tp}
        return why_not_executable(plan) is None and all(_divides(family, plan, tp) for tp in degrees)

    return accepts


def trainer_options(family: Family) -> tuple[str, ...]:
    """The model's sizes as the arguments of ``penstock.runtime.parallel.train``."""
    sizes = {
        "layers": family.layers, "hidden": family.hidden, "heads": family.heads, "vocabulary": family.vocabulary,
        "sequence": family.tokens,
    }  # fmt: skip
    return tuple(word for name, size in sizes.items() for word in (f"--{name}", str(size)))


def _divides(family: Family, plan: ParallelPlan, tp: int) -> bool:
    local = family.tokens // plan.context
    return not (family.heads % tp or family.vocabulary % tp or (plan.sequence_parallel and local % tp))


def _doubt(device: DeviceModel) -> float:
    if isinstance(device, ProfiledDevice):
        return DOUBT_PROFILED
    return DOUBT_FITTED if device.name.split("-")[0] in CALIBRATED else DOUBT_DATASHEET
