"""torchtitan: a job's TOML file."""

from penstock.core import PipelineSchedule, PlanError
from penstock.parallel.devices import ChipMesh
from penstock.parallel.exports.common import Exported, Flat, flattened
from penstock.parallel.families import Family
from penstock.parallel.planning.candidates import Candidate

SCHEDULES = {
    PipelineSchedule.ONE_F_ONE_B: "1F1B", PipelineSchedule.GPIPE: "GPipe",
    PipelineSchedule.INTERLEAVED: "Interleaved1F1B", PipelineSchedule.ZERO_BUBBLE: "ZBVZeroBubble",
}  # fmt: skip


def torchtitan(candidate: Candidate, family: Family, mesh: ChipMesh) -> Exported:
    """A TOML file for a Llama-style model; unequal stages are named module by module."""
    if family.style != "llama":
        raise PlanError(
            f"torchtitan trains Llama-style models, not {family.style}", "a llama model", "Try --export megatron"
        )
    flat = flattened(candidate.plan, family, "torchtitan")
    text = "\n".join([*_training(flat, family), "", *_parallelism(flat), "", *_checkpoint(flat)]) + "\n"
    launch = (
        f"torchrun --nnodes {mesh.nodes} --nproc-per-node {mesh.per_node} --rdzv-backend c10d "
        "--rdzv-endpoint $HEAD -m torchtitan.train --job.config_file plan.toml"
    )
    return Exported(trainer="torchtitan", text=text, launch=launch, notes=flat.notes)


def _training(flat: Flat, family: Family) -> list[str]:
    """A pipeline cuts its local batch into micro-batches; without one, further micro-batches are accumulated."""
    local = flat.plan.global_batch // flat.dp if flat.pp > 1 else flat.micro_batch
    return [
        "[model]", 'name = "llama3"', f'flavor = "{family.name.split("-")[-1].upper()}"', "", "[training]",
        f"local_batch_size = {local}", f"global_batch_size = {flat.plan.global_batch}",
        f"seq_len = {family.tokens}", 'mixed_precision_param = "bfloat16"',
    ]  # fmt: skip


def _parallelism(flat: Flat) -> list[str]:
    sharded = flat.plan.zero >= 1
    lines = [
        "[parallelism]",
        f"data_parallel_replicate_degree = {1 if sharded else flat.dp}",
        f"data_parallel_shard_degree = {flat.dp if sharded else 1}",
        f"tensor_parallel_degree = {flat.tp}",
        f"context_parallel_degree = {flat.plan.context}",
        f"pipeline_parallel_degree = {flat.pp}",
    ]
    if sharded:
        lines.append(f'fsdp_reshard_after_forward = "{"always" if flat.plan.zero == 3 else "never"}"')
    if flat.pp > 1:
        lines.append(f'pipeline_parallel_schedule = "{SCHEDULES[flat.plan.schedule]}"')
        lines.append(f"pipeline_parallel_microbatch_size = {flat.micro_batch}")
        lines += [] if flat.even else _modules(flat)
    return lines


def _modules(flat: Flat) -> list[str]:
    """The modules of every stage by name."""
    lines, at = ["module_fqns_per_model_part = ["], 0
    for number, count in enumerate(flat.layers):
        names = [f'"layers.{layer}"' for layer in range(at, at + count)]
        names = (['"tok_embeddings"'] if number == 0 else []) + names
        names += ['"norm"', '"output"'] if number == flat.pp - 1 else []
        lines.append(f"    [{', '.join(names)}],")
        at += count
    return [*lines, "]"]


def _checkpoint(flat: Flat) -> list[str]:
    lines = ["[activation_checkpoint]", f'mode = "{flat.recompute}"']
    return [*lines, 'selective_ac_option = "op"'] if flat.recompute == "selective" else lines
