"""Megatron-LM: arguments of its training scripts.

Written for the argument parser of Megatron-LM 0.20; the tests hold every argument against a record of it, and against
the parser itself where a checkout is at hand.
"""

from collections.abc import Iterator
from dataclasses import replace

from penstock.core import PipelineSchedule, PlanError
from penstock.parallel.devices import ChipMesh, Trainer
from penstock.parallel.exports.common import Exported, Flat, flattened, half_precision
from penstock.parallel.exports.fidelity import cost_notes
from penstock.parallel.families import Family
from penstock.parallel.operator_costs import SequenceSplit, best_split
from penstock.parallel.planning.candidates import Candidate
from penstock.parallel.planning.uniform_plans import Recompute
from penstock.predict import Precision

SCRIPTS = {
    "gpt": "pretrain_gpt.py", "llama": "pretrain_gpt.py", "bert": "examples/bert/pretrain_bert.py",
    "t5": "examples/t5/pretrain_t5.py",
}  # fmt: skip
MODULES = {Recompute.NORMS: "layernorm", Recompute.SELECTIVE: "core_attn"}
"""What it calls the parts of a layer that are computed again."""
DROPOUT = 0.1
"""Of models that have one, as Megatron-LM's own default."""
CONNECTIONS_FREE_FROM = 10.0
"""Compute capability (Blackwell) from which the order of kernels needs no single connection to the device."""


def megatron(candidate: Candidate, family: Family, mesh: ChipMesh) -> Exported:
    """Arguments for the plan; a layout argument where stages hold different numbers of layers."""
    if family.style not in SCRIPTS:
        raise PlanError(
            f"Megatron-LM has no training script for {family.style} models", f"one of {', '.join(SCRIPTS)}",
            "Try --export deepspeed",
        )  # fmt: skip
    given = flattened(candidate.plan, family, "Megatron-LM")
    _refuse_what_it_asserts(given, family)
    flat, notes = _in_its_words(given)
    notes += _split_notes(flat, family, mesh)
    notes += cost_notes(flat, candidate, family, mesh, "Megatron-LM")
    arguments = [
        *_model(family), *_batch(flat, family), *_precision(family, mesh), *_degrees(flat, family, mesh),
        *_pipeline(flat), *_recompute(flat), *_sharding(flat), *_kernels(candidate.trainer, flat),
    ]  # fmt: skip
    return Exported(
        trainer="megatron", text="\n".join(arguments) + "\n", launch=_launch(flat, family, mesh),
        notes=(*flat.notes, *notes),
    )  # fmt: skip


def _refuse_what_it_asserts(flat: Flat, family: Family) -> None:
    """Conditions its scripts check after their arguments are parsed."""
    if family.style == "t5" and flat.pp > 1:
        raise PlanError(
            f"Megatron-LM trains T5 without pipeline stages, and the plan has {flat.pp}", "one stage",
            "Try --export deepspeed, or fewer devices with more memory",
        )  # fmt: skip
    rounds = flat.plan.schedule is PipelineSchedule.INTERLEAVED and flat.plan.micro_batches % flat.pp
    if rounds:
        raise PlanError(
            f"{flat.plan.micro_batches} micro-batches for an interleaved pipeline of {flat.pp} stages",
            "a number of micro-batches that the stages divide", "Plan with another --batch or without --schedule",
        )  # fmt: skip


def _in_its_words(flat: Flat) -> tuple[Flat, list[str]]:
    """What Megatron-LM runs instead where it has no word for the plan's schedule or sharding."""
    plan, notes = flat.plan, []
    if plan.schedule in (PipelineSchedule.ZERO_BUBBLE, PipelineSchedule.GPIPE) and flat.pp > 1:
        notes.append(f"Megatron-LM has no {plan.schedule} schedule; it runs 1F1B")
        plan = replace(plan, schedule=PipelineSchedule.ONE_F_ONE_B)
    if plan.zero > 1 and flat.pp > 1:
        notes.append(f"beside a pipeline ZeRO {plan.zero} becomes the distributed optimizer, which shards as ZeRO 1")
        plan = replace(plan, zero=1)
    return replace(flat, plan=plan), notes


def _model(family: Family) -> Iterator[str]:
    if family.style == "t5":
        yield f"--encoder-num-layers {family.layers // 2}"
        yield f"--decoder-num-layers {family.layers - family.layers // 2}"
    else:
        yield f"--num-layers {family.layers}"
    yield from (
        f"--hidden-size {family.hidden}", f"--num-attention-heads {family.heads}",
        f"--ffn-hidden-size {family.feed_forward}",
    )  # fmt: skip
    if family.head_dim * family.heads != family.hidden:
        yield f"--kv-channels {family.head_dim}"
    if family.kv_heads != family.heads:
        yield from ("--group-query-attention", f"--num-query-groups {family.kv_heads}")
    if family.style == "llama":
        yield from ("--swiglu", "--normalization RMSNorm", "--disable-bias-linear")
        yield from _llama_parts(family)
    if family.rotary_base:
        yield from ("--position-embedding-type rope", f"--rotary-base {family.rotary_base}")
    dropout = DROPOUT if family.dropout else 0.0
    yield from (f"--attention-dropout {dropout}", f"--hidden-dropout {dropout}")
    if not family.tied:
        yield "--untie-embeddings-and-output-weights"


def _llama_parts(family: Family) -> Iterator[str]:
    """What some models of the kind have and others do not: biases, norms of queries, windows, experts."""
    if family.qkv_bias:
        yield "--add-qkv-bias"
    if family.qk_norm:
        yield "--qk-layernorm"
    if family.window:
        yield f"--window-size {family.window},0"
    if family.experts:
        yield from (
            f"--num-experts {family.experts}", f"--moe-router-topk {family.active_experts}",
            f"--moe-ffn-hidden-size {family.feed_forward}", "--moe-token-dispatcher-type alltoall",
        )  # fmt: skip


def _batch(flat: Flat, family: Family) -> Iterator[str]:
    longest = family.tokens - family.decoded
    if family.style == "t5":
        yield from (f"--encoder-seq-length {longest}", f"--decoder-seq-length {family.decoded}")
    else:
        yield f"--seq-length {longest}"
    yield f"--max-position-embeddings {longest}"
    yield from (f"--micro-batch-size {flat.micro_batch}", f"--global-batch-size {flat.plan.global_batch}")


def _precision(family: Family, mesh: ChipMesh) -> list[str]:
    if family.element_bytes != 2:
        return []
    return [f"--{half_precision(mesh.chip)}"]


def _kernels(trainer: Trainer, flat: Flat) -> Iterator[str]:
    """fp8 with scales of the tensors at hand, and collectives behind products where tensors and sequences are split."""
    if trainer.fp8:
        yield from ("--fp8-format hybrid", "--fp8-recipe tensorwise")
    if trainer.overlaps_tensors and flat.tp > 1 and flat.plan.sequence_parallel:
        yield "--tp-comm-overlap"


def _degrees(flat: Flat, family: Family, mesh: ChipMesh) -> Iterator[str]:
    yield from (f"--tensor-model-parallel-size {flat.tp}", f"--pipeline-model-parallel-size {flat.pp}")
    if flat.plan.sequence_parallel and flat.tp > 1:
        yield "--sequence-parallel"
    if flat.plan.experts > 1:
        yield f"--expert-model-parallel-size {flat.plan.experts}"
    if flat.plan.context > 1:
        yield f"--context-parallel-size {flat.plan.context}"
        yield from _context(_sequence(flat, family, mesh))


def _context(split: SequenceSplit) -> Iterator[str]:
    """All-to-all over heads, a ring over positions, or heads inside of rings."""
    if split.ring == 1:
        yield "--cp-comm-type a2a"
    elif split.heads == 1:
        yield "--cp-comm-type p2p"
    else:
        yield from ("--cp-comm-type a2a+p2p", f"--hierarchical-context-parallel-sizes {split.heads} {split.ring}")


def _sequence(flat: Flat, family: Family, mesh: ChipMesh) -> SequenceSplit:
    device = mesh.priced(Precision.FP16).device
    rate = device.peak * device.compute_share
    return best_split(flat.plan.context, family, mesh.fabric, mesh.per_node, rate)


def _split_notes(flat: Flat, family: Family, mesh: ChipMesh) -> Iterator[str]:
    if flat.plan.context > 1:
        split = _sequence(flat, family, mesh)
        if family.kv_heads // flat.tp % split.heads:
            yield (
                f"the plan copies {family.kv_heads} key heads to {split.heads} groups of an all-to-all; "
                "Transformer Engine wants them to divide: use --cp-comm-type p2p if it refuses"
            )


def _pipeline(flat: Flat) -> list[str]:
    """Layers per stage where they are equal, else every chunk of every stage: E, a t per layer, L."""
    chunks = [count for turn in flat.chunks for count in turn]
    if len(set(chunks)) == 1:
        interleaved = flat.plan.interleave > 1
        return [f"--num-layers-per-virtual-pipeline-stage {chunks[0]}"] if interleaved else []
    parts = ["t" * count for count in chunks]
    parts[0], parts[-1] = "E" + parts[0], parts[-1] + "L"
    return [f"--pipeline-model-parallel-layout {'|'.join(parts)}"]


def _recompute(flat: Flat) -> list[str]:
    if flat.recompute is Recompute.NONE:
        return []
    if flat.recompute in MODULES:
        return ["--recompute-granularity selective", f"--recompute-modules {MODULES[flat.recompute]}"]
    per_chunk = -(-flat.recomputed_layers // flat.plan.interleave)
    full = flat.recomputed_layers >= max(flat.layers)
    method = ["uniform", "1"] if full else ["block", str(per_chunk)]
    return ["--recompute-granularity full", f"--recompute-method {method[0]}", f"--recompute-num-layers {method[1]}"]


def _sharding(flat: Flat) -> Iterator[str]:
    """Sharded state, and the overlap that the plan's time counts on."""
    fully = flat.plan.zero > 1
    if fully:
        strategy = "optim_grads_params" if flat.plan.zero == 3 else "optim_grads"
        yield from (
            "--use-megatron-fsdp", f"--data-parallel-sharding-strategy {strategy}", "--ckpt-format fsdp_dtensor",
        )  # fmt: skip
    if flat.plan.zero:
        yield "--use-distributed-optimizer"
    if flat.dp * flat.plan.context > 1:
        yield "--overlap-grad-reduce"
    if fully:
        yield "--overlap-param-gather"


def _launch(flat: Flat, family: Family, mesh: ChipMesh) -> str:
    """With mock data, so that the plan can be tried as it is; ``$HEAD`` is the first node."""
    trial = f"--mock-data --tokenizer-type NullTokenizer --vocab-size {family.vocabulary - 1}"
    if SCRIPTS[family.style] != "pretrain_gpt.py":
        trial = "--data-path $DATA --vocab-file $VOCABULARY"
    return (
        f"{_connections(flat, mesh)}torchrun --nnodes {mesh.nodes} --nproc-per-node {mesh.per_node} "
        f"--rdzv-backend c10d --rdzv-endpoint $HEAD {SCRIPTS[family.style]} $(cat megatron.args) "
        f"{trial} --train-iters 20 --lr 1e-4"
    )


def _connections(flat: Flat, mesh: ChipMesh) -> str:
    """One connection keeps kernels in order where communication must start first; sharded weights want several."""
    if flat.plan.zero > 1:
        return "env -u CUDA_DEVICE_MAX_CONNECTIONS "
    ordered = (flat.tp > 1 or flat.plan.context > 1) and mesh.chip.generation < CONNECTIONS_FREE_FROM
    return "CUDA_DEVICE_MAX_CONNECTIONS=1 " if ordered else ""
