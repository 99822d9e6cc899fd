"""What people ask of the planner: the best plan of a model on a cluster, or one for each number of devices."""

from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.core import InputError, ParallelPlan, PipelineSchedule, PlanError, parse_bytes
from penstock.parallel.captured import is_module, module_family
from penstock.parallel.devices import ChipMesh, mesh_named
from penstock.parallel.families import Family, family_named
from penstock.parallel.planning.candidates import Candidate, Planned
from penstock.parallel.planning.own_plan import own_plan, refuse_without_cost
from penstock.parallel.planning.planner import Planner
from penstock.parallel.planning.trainer_kernels import USUAL_KERNELS, TrainerKernels
from penstock.parallel.planning.training_run import usual_batch


def plan_for(
    model: str | Family, cluster: str | ChipMesh, *, batch: int | None = None, seq: int | None = None,
    memory: str | float | None = None, seconds: float = 10.0, schedules: Sequence[PipelineSchedule] = (),
    how: TrainerKernels = USUAL_KERNELS, on_better: Callable[[Candidate], None] | None = None,
) -> Planned:  # fmt: skip
    """The fastest plan found within about ``seconds``.

    ``model``: a name, a ``config.json``, a script with ``penstock_model(batch)`` or ``module:function``; ``batch``: the
    global batch in samples, about four million tokens where it is left out; ``seq``: tokens per sample; ``memory``:
    bytes a plan may use per device ("28GB"); ``schedules``: further pipeline schedules to consider beside 1F1B;
    ``how``: fused kernels or single ones, half precision or fp8.
    """
    _check(1 if batch is None else batch, seconds)
    mesh = _mesh(cluster, memory)
    family = _family(model, mesh, batch or 1, seq)
    batch = batch or _usual(family, mesh)
    trainer = how.trainer(mesh, family)
    planner = Planner(family=family, mesh=mesh, batch=batch, schedules=tuple(schedules), trainer=trainer)
    return planner.run(seconds, on_better)


def evaluate_plan(
    model: str | Family, cluster: str | ChipMesh, plan: str | Path | ParallelPlan, *, batch: int,
    seq: int | None = None, memory: str | float | None = None, how: TrainerKernels = USUAL_KERNELS,
) -> Planned:  # fmt: skip
    """What a plan of one's own takes: a file as docs/plan.md describes it, or a plan.

    Raises :class:`~penstock.core.PlanError` where the plan is none for the model, the devices and the batch; one that
    does not fit is priced all the same, and ``fits`` of the answer says so.
    """
    _check(batch, 1.0)
    mesh = _mesh(cluster, memory)
    family = _family(model, mesh, batch, seq)
    own = plan if isinstance(plan, ParallelPlan) else own_plan(Path(plan), family, mesh.devices, batch)
    refuse_without_cost(own, family, mesh)
    trainer = how.trainer(mesh, family)
    return Planner(family=family, mesh=mesh, batch=batch, trainer=trainer).evaluated(own)


def throughput_curve(
    model: str | Family, cluster: str | ChipMesh, counts: Sequence[int], *, batch: int, seq: int | None = None,
    memory: str | float | None = None, seconds: float = 10.0, how: TrainerKernels = USUAL_KERNELS,
) -> dict[int, Planned | InputError]:  # fmt: skip
    """The best plan for each number of devices, or why there is none."""
    _check(batch, seconds)
    mesh = cluster if isinstance(cluster, ChipMesh) else mesh_named(cluster)
    family = _family(model, mesh, batch, seq)
    answers: dict[int, Planned | InputError] = {}
    for count in counts:
        try:
            answers[count] = plan_for(
                family, mesh.part(count), batch=batch, memory=memory, seconds=seconds / len(counts), how=how
            )
        except PlanError as problem:
            answers[count] = problem
    return answers


def _mesh(cluster: str | ChipMesh, memory: str | float | None) -> ChipMesh:
    mesh = cluster if isinstance(cluster, ChipMesh) else mesh_named(cluster)
    if memory is None:
        return mesh
    return mesh.limited(float(parse_bytes(memory)) if isinstance(memory, str) else memory)


def _family(model: str | Family, cluster: ChipMesh, batch: int, seq: int | None) -> Family:
    if isinstance(model, Family):
        return model
    if not is_module(model):
        return family_named(model, seq)
    if seq is not None:
        raise InputError(f"a sequence length for {model}", "none: the model brings its own inputs", "Leave --seq away")
    return module_family(model, batch, "cpu" if cluster.chip.name == "cpu" else "cuda")


def _usual(family: Family, mesh: ChipMesh) -> int:
    if family.tokens <= 1 or family.style == "module":
        raise InputError(f"no batch for {family.name}", "a global batch in samples", "Give --batch")
    return usual_batch(family, mesh)


def _check(batch: int, seconds: float) -> None:
    if batch < 1:
        raise InputError(f"a global batch of {batch}", "at least one sample")
    if not 0 < seconds <= 86_400:
        raise InputError(f"{seconds} seconds to search", "more than 0 and at most a day")
