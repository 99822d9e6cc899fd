"""DeepSpeed: a configuration file and the launch line, with the degrees as Megatron-DeepSpeed reads them.

Written for DeepSpeed 0.19 and Megatron-DeepSpeed of July 2025; the tests hold keys and arguments against a record.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from penstock.core import PipelineSchedule, PlanError
from penstock.parallel.devices import ChipMesh
from penstock.parallel.exports.common import Exported, Flat, flattened, half_precision
from penstock.parallel.exports.fidelity import cost_notes, overlap_notes
from penstock.parallel.families import Family
from penstock.parallel.planning.candidates import Candidate
from penstock.parallel.planning.uniform_plans import Recompute
from penstock.predict import Precision


def deepspeed(candidate: Candidate, family: Family, mesh: ChipMesh) -> Exported:
    """JSON for ``deepspeed.initialize``; other degrees go to the script, as Megatron-DeepSpeed reads them."""
    if candidate.fp8:
        raise PlanError(
            "DeepSpeed's configuration has no word for linear layers in fp8", "a plan in half precision",
            "Leave --precision away, or try --export megatron",
        )  # fmt: skip
    if candidate.plan.experts > 1:
        raise PlanError(
            f"experts divided {candidate.plan.experts} ways", "a plan without expert parallelism",
            "Try --export megatron",
        )  # fmt: skip
    flat, notes = _in_its_words(flattened(candidate.plan, family, "DeepSpeed"))
    notes += overlap_notes(candidate, family, mesh, "DeepSpeed")
    notes += cost_notes(flat, candidate, family, mesh, "DeepSpeed")
    config: dict[str, Any] = {
        "train_batch_size": flat.plan.global_batch,
        "train_micro_batch_size_per_gpu": flat.micro_batch,
        "gradient_accumulation_steps": flat.plan.micro_batches,
        **_precision(family, mesh),
        "zero_optimization": {"stage": flat.plan.zero, "overlap_comm": True},
    }
    if flat.recompute is not Recompute.NONE:
        config["activation_checkpointing"] = {
            "partition_activations": flat.tp > 1,
            "number_checkpoints": max(flat.layers),
        }
    words = " ".join([*_launcher(mesh), "train.py", *_arguments(flat)])
    return Exported(
        trainer="deepspeed", text=json.dumps(config, indent=2) + "\n", launch=words, notes=(*flat.notes, *notes)
    )


def _in_its_words(flat: Flat) -> tuple[Flat, list[str]]:
    """What DeepSpeed runs instead where it has no word for the plan's stages, schedule, sharding or recomputation."""
    plan, notes = flat.plan, []
    if flat.pp > 1 and plan.zero > 1:
        notes.append(f"DeepSpeed's pipeline allows ZeRO 1 at most; ZeRO {plan.zero} is exported as 1")
        plan = replace(plan, zero=1)
    if flat.pp > 1 and plan.schedule is not PipelineSchedule.ONE_F_ONE_B and not _zero_bubble(flat):
        notes.append(f"DeepSpeed runs 1F1B instead of {plan.schedule}")
        plan = replace(plan, schedule=PipelineSchedule.ONE_F_ONE_B, interleave=1)
    flat = replace(flat, plan=plan)
    if flat.layers != (even := _balanced(sum(flat.layers), flat.pp)):
        notes.append(
            "DeepSpeed deals layers evenly (partition_method type:transformer) and has no list of layers per stage"
        )
        flat = replace(flat, layers=even)
    if flat.recompute is not Recompute.NONE and (
        flat.recompute is not Recompute.FULL or flat.recomputed_layers < max(flat.layers)
    ):
        notes.append("DeepSpeed checkpoints whole layers, all of them")
        flat = replace(flat, recompute=Recompute.FULL, recomputed_layers=max(flat.layers))
    return flat, notes


def _zero_bubble(flat: Flat) -> bool:
    """Its zero-bubble schedule (ZB-H1) refuses sequence parallelism."""
    return flat.plan.schedule is PipelineSchedule.ZERO_BUBBLE and not flat.plan.sequence_parallel


def _balanced(layers: int, stages: int) -> tuple[int, ...]:
    return tuple(layers // stages + (number < layers % stages) for number in range(stages))


def _precision(family: Family, mesh: ChipMesh) -> dict[str, Any]:
    if family.element_bytes != 2:
        return {}
    return {"bf16" if half_precision(mesh.chip) is Precision.BF16 else "fp16": {"enabled": True}}


def _launcher(mesh: ChipMesh) -> Iterator[str]:
    """Several nodes are found in a host file; without one DeepSpeed refuses more than this node."""
    yield "deepspeed"
    if mesh.nodes > 1:
        yield from ("--hostfile hostfile", f"--num_nodes {mesh.nodes}")
    yield f"--num_gpus {mesh.per_node}"


def _arguments(flat: Flat) -> Iterator[str]:
    yield from ("--deepspeed", "--deepspeed_config ds_config.json")
    yield from (f"--tensor-model-parallel-size {flat.tp}", f"--pipeline-model-parallel-size {flat.pp}")
    if flat.pp == 1:
        yield "--no-pipeline-parallel"
    if flat.plan.sequence_parallel and flat.tp > 1:
        yield "--sequence-parallel"
    if flat.plan.context > 1:
        yield f"--ds-sequence-parallel-size {flat.plan.context}"
    if flat.pp > 1 and _zero_bubble(flat):
        yield "--enable-zbh1-pipeline"
    if flat.recompute is not Recompute.NONE:
        yield from ("--checkpoint-activations", "--deepspeed-activation-checkpointing")
