"""A configuration of one's own as a plan: what a person writes down who already knows how a model is split.

A YAML or JSON file with the words of the field (``tp``, ``pp``, ``cp``, ``micro_batch``, ``recompute``, …), or what
``penstock plan --json`` wrote. Whatever is left out has the plainest value.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from penstock.core import ParallelPlan, ParallelStage, PipelineSchedule, PlanError, UnknownNameError
from penstock.parallel.devices import ChipMesh
from penstock.parallel.families import Family
from penstock.parallel.planning.uniform_plans import Degrees, Recompute, plan_of, recomputed

COUNTS = ("tp", "pp", "dp", "cp", "ep", "micro_batch", "chunks")
FIELDS = (*COUNTS, "zero", "recompute", "recompute_layers", "schedule", "sequence_parallel", "layers")
ChoiceT = TypeVar("ChoiceT", Recompute, PipelineSchedule)
_LARGEST_BYTES = 4 << 20
_TRY = "See 'A plan of your own' in docs/plan.md"


def own_plan(path: Path, family: Family, devices: int, batch: int) -> ParallelPlan:
    """The plan that the file describes for ``devices`` devices and a global batch."""
    given = _read(path)
    if "plan" in given or "stages" in given:
        return _written_before(path, given.get("plan", given), family, devices, batch)
    unknown = sorted(set(given) - set(FIELDS))
    if unknown:
        raise UnknownNameError.of(f"field of {path}", unknown[0], FIELDS)
    counts = {name: _count(path, given, name) for name in COUNTS if name != "dp"}
    degrees = _degrees(path, given, counts, devices, batch)
    recompute = _choice(path, given, "recompute", Recompute, Recompute.NONE)
    plan = plan_of(
        degrees, family.chain(), family, batch, recompute=recompute, zero=_zero(path, given),
        sequence_parallel=_flag(path, given, "sequence_parallel", default=bool(family.heads)),
    )  # fmt: skip
    if plan is None:
        raise PlanError(f"{path}: {degrees.pp} stages for {family.layers} layers", "at least one layer per stage")
    plan = _with_layers(path, given, plan, family)
    plan = _partly_recomputed(path, given, plan, family)
    return replace(_scheduled(path, given, plan, counts["chunks"]), experts=counts["ep"])


def sizes_of(plan: ParallelPlan) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tensor-parallel degrees and the micro-batches per device that a plan uses."""
    pairs = {
        (tp, plan.micro_batch // dp) for stage in plan.stages for tp, dp in zip(stage.tp, stage.dp, strict=True)
    }  # fmt: skip
    return tuple(sorted({tp for tp, _ in pairs})), tuple(sorted({size for _, size in pairs}))


def refuse_without_cost(plan: ParallelPlan, family: Family, mesh: ChipMesh) -> None:
    """A plan that splits the model in a way nobody could run has no price."""
    splits, sizes = sizes_of(plan)
    odd = [tp for tp in splits if (family.heads and family.heads % tp) or (tp > 1 and not family.tensor_parallel)]
    if odd:
        raise PlanError(f"tp {odd[0]} for the {family.heads} heads of {family.name}", "a number that divides them")
    unknown = [size for size in sizes if family.micro_batches and size not in family.micro_batches]
    if unknown:
        known = ", ".join(map(str, family.micro_batches))
        raise PlanError(f"micro-batches of {unknown[0]} samples of {family.name}", f"one of {known}")
    if plan.context > 1 and (not family.heads or family.style == "t5" or family.tokens % (2 * plan.context)):
        raise PlanError(f"cp {plan.context} for {family.tokens} tokens of {family.name}", "whole tokens of a decoder")
    if plan.experts > 1 and (not family.experts or family.experts % plan.experts):
        raise PlanError(
            f"ep {plan.experts} for {family.experts} experts of {family.name}", "a number that divides them"
        )
    _refuse_straddling(plan, mesh)


def _refuse_straddling(plan: ParallelPlan, mesh: ChipMesh) -> None:
    here = 0
    for number, stage in enumerate(plan.stages):
        if not mesh.fits(here, stage.devices):
            raise PlanError(
                f"stage {number} on devices {here} to {here + stage.devices - 1} of nodes of {mesh.per_node}",
                "a stage inside a node, or whole nodes",
            )  # fmt: skip
        here += stage.devices


def _degrees(path: Path, given: Mapping[str, Any], counts: dict[str, int], devices: int, batch: int) -> Degrees:
    used = counts["tp"] * counts["pp"] * counts["cp"]
    dp = _count(path, given, "dp") if "dp" in given else max(1, devices // used)
    if used * dp != devices:
        shown = " x ".join(f"{name} {counts[name]}" for name in ("tp", "pp", "cp"))
        raise PlanError(
            f"{path}: {shown} x dp {dp} on {devices} devices", "a product equal to the devices", "Leave dp away"
        )
    if batch % (dp * counts["micro_batch"]):
        raise PlanError(
            f"{path}: {dp} replicas with micro-batches of {counts['micro_batch']} for a batch of {batch}",
            "a batch that they divide",
        )  # fmt: skip
    return Degrees(counts["pp"], counts["tp"], dp, counts["cp"], counts["micro_batch"])


def _with_layers(path: Path, given: Mapping[str, Any], plan: ParallelPlan, family: Family) -> ParallelPlan:
    """Stages with the given numbers of layers instead of equal ones."""
    layers = given.get("layers")
    if layers is None:
        return plan
    whole = isinstance(layers, list) and all(type(count) is int and count > 0 for count in layers)
    if not whole or len(layers) != len(plan.stages) or sum(layers) != family.layers:
        raise PlanError(
            f"{path}: layers is {layers!r}", f"{len(plan.stages)} numbers, one for each stage, {family.layers} in all"
        )
    chain = family.chain()
    starts = np.flatnonzero(chain.starts_layer)
    cuts = [0, *(int(starts[at]) for at in list(accumulate(layers))[:-1]), chain.size]
    return _cut(plan, cuts, [flag for stage in plan.stages for flag in stage.recompute])


def _partly_recomputed(path: Path, given: Mapping[str, Any], plan: ParallelPlan, family: Family) -> ParallelPlan:
    """Only the first layers of every stage computed again, where the file says how many."""
    if "recompute_layers" not in given:
        return plan
    count = _count(path, given, "recompute_layers")
    if given.get("recompute") != Recompute.FULL:
        raise PlanError(f"{path}: recompute_layers without recompute: full", "both")
    chain = family.chain()
    flags, layer = np.array(recomputed(chain, family, Recompute.FULL)), np.cumsum(chain.starts_layer)
    for start, stop in pairwise(plan.cuts):
        first = layer[start] if chain.starts_layer[start] else layer[start] + 1
        flags[start:stop] &= layer[start:stop] - first < count
    return _cut(plan, list(plan.cuts), flags.tolist())


def _cut(plan: ParallelPlan, cuts: list[int], again: list[bool]) -> ParallelPlan:
    first = plan.stages[0]
    uniform = (
        ParallelStage.uniform(stop - start, tp=first.tp[0], dp=first.dp[0], context=plan.context)
        for start, stop in pairwise(cuts)
    )
    flags = (tuple(again[start:stop]) for start, stop in pairwise(cuts))
    return replace(plan, stages=tuple(replace(stage, recompute=own) for stage, own in zip(uniform, flags, strict=True)))


def _scheduled(path: Path, given: Mapping[str, Any], plan: ParallelPlan, chunks: int) -> ParallelPlan:
    usual = PipelineSchedule.INTERLEAVED if chunks > 1 else PipelineSchedule.ONE_F_ONE_B
    schedule = _choice(path, given, "schedule", PipelineSchedule, usual)
    if chunks > 1 and schedule is not PipelineSchedule.INTERLEAVED:
        raise PlanError(f"{path}: {chunks} chunks under {schedule}", "schedule: interleaved, or chunks: 1")
    if chunks > 1 and len(plan.stages) == 1:
        raise PlanError(f"{path}: {chunks} chunks of one stage", "pp of at least 2, or chunks: 1")
    return replace(plan, schedule=schedule, interleave=chunks)


def _written_before(path: Path, value: Any, family: Family, devices: int, batch: int) -> ParallelPlan:
    plan = ParallelPlan.from_mapping(value) if isinstance(value, Mapping) else None
    if plan is None or (plan.ops, plan.devices, plan.global_batch) != (family.chain().size, devices, batch):
        given = f"a plan of {plan.ops} operators, {plan.devices} devices, batch {plan.global_batch}" if plan else "none"
        raise PlanError(
            f"{path}: {given}", f"{family.chain().size} operators of {family.name}, {devices} devices, batch {batch}",
            "Name the model, cluster and batch that it was made for",
        )  # fmt: skip
    return plan


def _read(path: Path) -> Mapping[str, Any]:
    if path.exists() and (not path.is_file() or path.stat().st_size > _LARGEST_BYTES):
        raise PlanError(f"{path} is no file of at most {_LARGEST_BYTES >> 20} MiB", "a YAML or JSON file", _TRY)
    try:
        text = path.read_text(encoding="utf-8")
        given = json.loads(text) if path.suffix == ".json" else _yaml(text)
    except OSError as problem:
        raise PlanError(f"cannot read {path}: {problem.strerror}", "a YAML or JSON file", _TRY) from problem
    except ValueError as problem:
        raise PlanError(f"{path} cannot be read: {problem}", "a YAML or JSON file", _TRY) from problem
    if not isinstance(given, Mapping):
        raise PlanError(f"{path} holds a {type(given).__name__}", "fields like tp, pp and micro_batch", _TRY)
    return given


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise PlanError("a YAML file, and pyyaml is not installed", "a JSON file", "pip install pyyaml") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise ValueError(str(problem)) from problem


def _count(path: Path, given: Mapping[str, Any], name: str) -> int:
    value = given.get(name, 1)
    if type(value) is not int or value < 1:
        raise PlanError(f"{path}: {name} is {value!r}", "a whole number of at least 1", _TRY)
    return value


def _zero(path: Path, given: Mapping[str, Any]) -> int:
    value = given.get("zero", 0)
    if type(value) is not int or not 0 <= value <= 3:
        raise PlanError(f"{path}: zero is {value!r}", "0, 1, 2 or 3", _TRY)
    return value


def _flag(path: Path, given: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise PlanError(f"{path}: {name} is {value!r}", "true or false", _TRY)
    return value


def _choice(path: Path, given: Mapping[str, Any], name: str, kinds: type[ChoiceT], default: ChoiceT) -> ChoiceT:
    value = given.get(name, default)
    if value not in list(kinds):
        raise UnknownNameError.of(f"{name} in {path}", str(value), [str(kind) for kind in kinds])
    return kinds(value)
