"""torchtitan: a Python module with the job's configuration.

torchtitan reads typed configurations from Python modules (its TOML files are gone since 2026). The module starts from
the configuration of the model that torchtitan ships and replaces what the plan decides. Written for torchtitan of
August 2026; the tests hold every field against a record of its dataclasses.
"""

from collections.abc import Iterator
from dataclasses import replace

from penstock.core import PipelineSchedule, PlanError, format_duration
from penstock.parallel.devices import ChipMesh
from penstock.parallel.exports.common import Exported, Flat, flattened, half_precision
from penstock.parallel.exports.fidelity import as_run, cost_notes, overlap_notes, priced
from penstock.parallel.families import Family
from penstock.parallel.full_cost import overlapped
from penstock.parallel.planning.candidates import Candidate
from penstock.parallel.planning.uniform_plans import Recompute
from penstock.predict import Precision

SCHEDULES = {
    PipelineSchedule.ONE_F_ONE_B: "1F1B", PipelineSchedule.GPIPE: "GPipe",
    PipelineSchedule.INTERLEAVED: "Interleaved1F1B", PipelineSchedule.ZERO_BUBBLE: "InterleavedZeroBubble",
}  # fmt: skip
FLAVORS = {  # hidden, layers, heads, kv heads, feed-forward, vocabulary: flavor, its configuration
    (2048, 16, 32, 8, 8192, 128256): ("1B", "llama3_8b"), (3072, 28, 24, 8, 8192, 128256): ("3B", "llama3_8b"),
    (4096, 32, 32, 8, 14336, 128256): ("8B", "llama3_8b"), (8192, 80, 64, 8, 28672, 128256): ("70B", "llama3_70b"),
    (16384, 126, 128, 8, 53248, 128256): ("405B", "llama3_405b"),
}  # fmt: skip
ROTARY_BASE = 500_000
FLOAT8 = 'Float8LinearConverter.Config(filter_fqns=["lm_head"], model_compile_enabled=True)'
"""All linear layers but the logits; without compilation casting costs more than fp8 saves."""
CHECKPOINTING = {Recompute.NONE: "None", Recompute.FULL: "FullAC.Config()"}
"""Its own selective recomputation for everything between."""


def torchtitan(candidate: Candidate, family: Family, mesh: ChipMesh) -> Exported:
    """A module for a model that torchtitan has a flavor of; the modules of every pipeline stage are named."""
    flavor, base = _flavor(family)
    given = flattened(candidate.plan, family, "torchtitan")
    _refuse_what_it_asserts(given, family, mesh)
    flat, notes = _in_its_words(given)
    notes += cost_notes(flat, candidate, family, mesh, "torchtitan")
    notes += _accumulation(flat, candidate, family)
    notes += overlap_notes(candidate, family, mesh, "torchtitan as exported")
    heading = _heading(family, mesh, flat, fp8=candidate.fp8)
    text = "\n".join([*heading, *_function(flat, family, flavor, base, fp8=candidate.fp8)]) + "\n"
    launch = (
        f"torchrun --nnodes {mesh.nodes} --nproc-per-node {mesh.per_node} --rdzv-backend c10d "
        "--rdzv-endpoint $HEAD -m torchtitan.train --module penstock_plan --config plan"
    )
    return Exported(trainer="torchtitan", text=text, launch=launch, notes=(*flat.notes, *notes))


def _flavor(family: Family) -> tuple[str, str]:
    sizes = family.hidden, family.layers, family.heads, family.kv_heads, family.feed_forward, family.vocabulary
    other = family.experts or family.window or family.qk_norm or family.rotary_base != ROTARY_BASE
    if family.style != "llama" or other or sizes not in FLAVORS:
        known = ", ".join(flavor for flavor, _ in FLAVORS.values())
        raise PlanError(
            f"torchtitan has no flavor of {family.name}", f"the sizes of its Llama 3: {known}", "Try --export megatron"
        )
    return FLAVORS[sizes]


def _refuse_what_it_asserts(flat: Flat, family: Family, mesh: ChipMesh) -> None:
    """Conditions torchtitan checks when a job starts, and devices whose arithmetic it does not use."""
    if half_precision(mesh.chip) is not Precision.BF16:
        raise PlanError(
            f"torchtitan computes in bfloat16, which {mesh.chip.name} does not", "a device since Ampere",
            "Try --export megatron, which uses fp16 there",
        )  # fmt: skip
    if family.tied and flat.pp > 1:
        raise PlanError(
            f"torchtitan ties the embeddings of {family.name}, which {flat.pp} stages would part", "one stage",
            "Plan with fewer devices, or --export megatron",
        )  # fmt: skip
    if family.kv_heads % flat.tp:
        raise PlanError(
            f"torchtitan splits the {family.kv_heads} key heads of {family.name} over tp {flat.tp}", "a divisor",
            "Try --export megatron, which copies them",
        )  # fmt: skip
    parts = flat.tp * (2 * flat.plan.context if flat.plan.context > 1 else 1)
    if flat.micro_batch * family.tokens % parts:
        raise PlanError(
            f"{flat.micro_batch * family.tokens} tokens of a micro-batch over tp {flat.tp} x context "
            f"{flat.plan.context}", f"a multiple of {parts}", "Plan with another --seq",
        )  # fmt: skip


def _in_its_words(flat: Flat) -> tuple[Flat, list[str]]:
    """Sharding and recomputation as torchtitan has them."""
    notes, plan = [], flat.plan
    if plan.context > 1 and plan.zero == 0:
        notes.append("torchtitan shards weights over context ranks, which the plan does not")
    if plan.zero in (0, 1) and (plan.zero or plan.context > 1):
        plan = replace(plan, zero=2)
    flat = replace(flat, plan=plan)
    if flat.recompute in (Recompute.NORMS, Recompute.SELECTIVE):
        notes.append("torchtitan's selective recomputation keeps attention and every second product instead")
        flat = replace(flat, recompute=Recompute.OPERATORS)
    if flat.recompute is Recompute.FULL and flat.recomputed_layers < max(flat.layers):
        notes.append("torchtitan recomputes all layers or none; all are")
        flat = replace(flat, recomputed_layers=max(flat.layers))
    return flat, notes


def _accumulation(flat: Flat, candidate: Candidate, family: Family) -> Iterator[str]:
    """Without a pipeline, torchtitan sums gradients after every accumulated micro-batch, not once."""
    further = flat.plan.micro_batches - 1
    if flat.pp > 1 or not further or flat.dp * flat.plan.context == 1 or flat.plan.zero == 3:
        return
    stage = priced(as_run(flat, family), candidate, family).stages[0]
    each = overlapped(stage.sync.gradients_s, stage.backward_s, stage.view.mesh.trainer.overlap_slowdown)
    yield (
        f"torchtitan sums gradients after each of {further + 1} micro-batches: about {format_duration(further * each)} "
        "more per iteration"
    )


def _heading(family: Family, mesh: ChipMesh, flat: Flat, *, fp8: bool) -> Iterator[str]:
    wanted = {Recompute.NONE: "", Recompute.FULL: "FullAC"}.get(flat.recompute, "SelectiveAC")
    yield f'"""{family.name} on {mesh.name}: save as penstock_plan.py beside torchtitan."""'
    yield from ("", "from dataclasses import replace", "")
    if fp8:
        yield "from torchtitan.components.quantization import Float8LinearConverter"
    yield f"from torchtitan.config import {'CompileConfig, ' if fp8 else ''}ParallelismConfig"
    if wanted:
        yield f"from torchtitan.distributed.activation_checkpoint import {wanted}"
    yield from ("from torchtitan.models.llama3 import config_registry, model_registry", "", "")


def _function(flat: Flat, family: Family, flavor: str, base: str, *, fp8: bool) -> Iterator[str]:
    converters = f", converters=[{FLOAT8}]" if fp8 else ""
    yield from (
        "def plan():", f"    config = config_registry.{base}()", "    return replace(", "        config,",
        f'        model_spec=model_registry("{flavor}"{converters}),',
    )  # fmt: skip
    if fp8:
        yield "        compile=CompileConfig(enable=True),"
    yield from ("        training=replace(", "            config.training,")
    yield from (f"            {name}={value!r}," for name, value in _training(flat, family).items())
    yield from ("        ),", "        parallelism=ParallelismConfig(")
    yield from (f"            {name}={value!r}," for name, value in _parallelism(flat).items())
    yield from _modules(flat)
    again = CHECKPOINTING.get(flat.recompute, "SelectiveAC.Config()")
    yield from ("        ),", f"        activation_checkpoint={again},", "    )")


def _training(flat: Flat, family: Family) -> dict[str, object]:
    """Tokens instead of samples: of a micro-batch on a replica, and of a step in all."""
    return {
        "num_tokens_per_microbatch_per_dp_rank": flat.micro_batch * family.tokens,
        "num_tokens_per_train_step": flat.plan.global_batch * family.tokens,
        "max_context_length": family.tokens,
        "mixed_precision_param": "bfloat16",
        "disable_cuda_graphs": flat.pp > 1,
    }


def _parallelism(flat: Flat) -> dict[str, object]:
    sharded = flat.plan.zero >= 1 and flat.dp > 1
    fields: dict[str, object] = {
        "data_parallel_replicate_degree": 1 if sharded else flat.dp,
        "data_parallel_shard_degree": flat.dp if sharded else 1,
        "tensor_parallel_degree": flat.tp,
        "enable_sequence_parallel": flat.plan.sequence_parallel,
        "context_parallel_degree": flat.plan.context,
        "pipeline_parallel_degree": flat.pp,
    }
    if flat.plan.zero >= 1:
        fields["fsdp_reshard_after_forward"] = "always" if flat.plan.zero == 3 else "never"
    if flat.pp > 1:
        fields["pipeline_parallel_schedule"] = SCHEDULES[flat.plan.schedule]
        fields["num_pp_microbatches"] = flat.plan.micro_batches
    return fields


def _modules(flat: Flat) -> Iterator[str]:
    """The modules of every chunk by name; left alone, torchtitan would give the first and last stage fewer layers."""
    if flat.pp == 1:
        return
    yield "            module_fqns_per_model_part=["
    chunks, at = [count for turn in flat.chunks for count in turn], 0
    for number, count in enumerate(chunks):
        names = [f"layers.{layer}" for layer in range(at, at + count)]
        names = (["tok_embeddings"] if number == 0 else []) + names
        names += ["norm", "lm_head"] if number == len(chunks) - 1 else []
        yield f"                {names!r},"
        at += count
    yield "            ],"
