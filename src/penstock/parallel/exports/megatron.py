"""Megatron-LM: arguments of its training scripts."""

from penstock.core import PipelineSchedule, PlanError
from penstock.parallel.devices import ChipMesh
from penstock.parallel.exports.common import Exported, Flat, flattened
from penstock.parallel.families import Family
from penstock.parallel.planning.candidates import Candidate
from penstock.parallel.planning.uniform_plans import Recompute

SCRIPTS = {"gpt": "pretrain_gpt.py", "llama": "pretrain_gpt.py", "bert": "pretrain_bert.py", "t5": "pretrain_t5.py"}


def megatron(candidate: Candidate, family: Family, mesh: ChipMesh) -> Exported:
    """Arguments for the plan; a layout argument where stages hold different numbers of layers."""
    if family.style not in SCRIPTS:
        raise PlanError(
            f"Megatron-LM has no training script for {family.style} models", f"one of {', '.join(SCRIPTS)}",
            "Try --export deepspeed",
        )  # fmt: skip
    flat = flattened(candidate.plan, family, "Megatron-LM")
    notes = [*flat.notes]
    arguments = [*_model(family), *_batch(flat, family), *_degrees(flat), *_pipeline(flat), *_recompute(flat)]
    if flat.plan.zero:
        arguments.append("--use-distributed-optimizer")
        if flat.plan.zero > 1:
            notes.append(f"ZeRO {flat.plan.zero} becomes the distributed optimizer, which shards what ZeRO 1 does")
    if flat.plan.schedule is PipelineSchedule.ZERO_BUBBLE:
        notes.append("Megatron-LM has no zero-bubble schedule; it runs 1F1B")
    launch = (
        f"torchrun --nnodes {mesh.nodes} --nproc-per-node {mesh.per_node} --rdzv-backend c10d "
        f"--rdzv-endpoint $HEAD {SCRIPTS[family.style]} $(cat megatron.args)"
    )
    return Exported(trainer="megatron", text="\n".join(arguments) + "\n", launch=launch, notes=tuple(notes))


def _model(family: Family) -> list[str]:
    words = [
        f"--num-layers {family.layers}" if family.style != "t5" else f"--encoder-num-layers {family.layers // 2}",
        f"--hidden-size {family.hidden}", f"--num-attention-heads {family.heads}",
        f"--ffn-hidden-size {family.feed_forward}",
    ]  # fmt: skip
    if family.style == "t5":
        words.append(f"--decoder-num-layers {family.layers - family.layers // 2}")
    if family.kv_heads != family.heads:
        words += ["--group-query-attention", f"--num-query-groups {family.kv_heads}"]
    if family.style == "llama":
        words += ["--swiglu", "--normalization RMSNorm", "--disable-bias-linear", "--position-embedding-type rope"]
    return words if family.tied else [*words, "--untie-embeddings-and-output-weights"]


def _batch(flat: Flat, family: Family) -> list[str]:
    return [
        f"--seq-length {family.tokens}", f"--max-position-embeddings {family.tokens}",
        f"--micro-batch-size {flat.micro_batch}", f"--global-batch-size {flat.plan.global_batch}", "--bf16",
    ]  # fmt: skip


def _degrees(flat: Flat) -> list[str]:
    words = [f"--tensor-model-parallel-size {flat.tp}", f"--pipeline-model-parallel-size {flat.pp}"]
    words += [f"--context-parallel-size {flat.plan.context}"] if flat.plan.context > 1 else []
    return [*words, "--sequence-parallel"] if flat.plan.sequence_parallel else words


def _pipeline(flat: Flat) -> list[str]:
    if flat.even:
        interleaved = flat.plan.schedule is PipelineSchedule.INTERLEAVED and flat.plan.interleave > 1
        per_chunk = flat.layers[0] // flat.plan.interleave
        return [f"--num-layers-per-virtual-pipeline-stage {per_chunk}"] if interleaved and per_chunk else []
    parts = [f"t*{count}" if count > 1 else "t" * count for count in flat.layers]
    parts[0], parts[-1] = "E" + parts[0], parts[-1] + "L"
    return [f"--pipeline-model-parallel-layout '{'|'.join(parts)}'"]


def _recompute(flat: Flat) -> list[str]:
    if flat.recompute is Recompute.NONE:
        return []
    if flat.recompute is Recompute.SELECTIVE:
        return ["--recompute-granularity selective"]
    full = flat.recomputed_layers >= max(flat.layers)
    method = ["uniform", "1"] if full else ["block", str(flat.recomputed_layers)]
    return ["--recompute-granularity full", f"--recompute-method {method[0]}", f"--recompute-num-layers {method[1]}"]
