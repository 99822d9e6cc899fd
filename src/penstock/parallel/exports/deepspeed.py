"""DeepSpeed: a configuration file and the launch line."""

import json
from typing import Any

from penstock.parallel.devices import ChipMesh
from penstock.parallel.exports.common import Exported, flattened
from penstock.parallel.families import Family
from penstock.parallel.planning.candidates import Candidate
from penstock.parallel.planning.uniform_plans import Recompute


def deepspeed(candidate: Candidate, family: Family, mesh: ChipMesh) -> Exported:
    """JSON for ``deepspeed.initialize``; other degrees go to the script, as Megatron-DeepSpeed reads them."""
    flat = flattened(candidate.plan, family, "DeepSpeed")
    notes = [*flat.notes]
    zero = flat.plan.zero
    if flat.pp > 1 and zero > 1:
        notes.append(f"DeepSpeed's pipeline allows ZeRO 1 at most; ZeRO {zero} is exported as 1")
        zero = 1
    if not flat.even:
        notes.append("DeepSpeed balances stages by itself: pass partition_method='parameters' or a list of layers")
    config: dict[str, Any] = {
        "train_batch_size": flat.plan.global_batch,
        "train_micro_batch_size_per_gpu": flat.micro_batch,
        "gradient_accumulation_steps": flat.plan.micro_batches,
        "bf16": {"enabled": family.element_bytes == 2},
        "zero_optimization": {"stage": zero, "overlap_comm": True},
    }
    if flat.recompute is not Recompute.NONE:
        config["activation_checkpointing"] = {
            "partition_activations": flat.tp > 1,
            "number_checkpoints": max(flat.layers),
        }
    degrees = f"--tensor-model-parallel-size {flat.tp} --pipeline-model-parallel-size {flat.pp}"
    if flat.plan.context > 1:
        degrees += f" --ds-sequence-parallel-size {flat.plan.context}"
    launch = (
        f"deepspeed --num_nodes {mesh.nodes} --num_gpus {mesh.per_node} train.py --deepspeed "
        f"--deepspeed_config ds_config.json {degrees}"
    )
    return Exported(trainer="deepspeed", text=json.dumps(config, indent=2) + "\n", launch=launch, notes=tuple(notes))
