"""Builds exported modules with torchtitan's own classes; a process of its own, started with a checkout's path.

Reads a JSON list of ``{"text": …, "world_size": …}``, writes a list of verdicts: an empty text, or the exception. Data,
quantization and logging, of which a configuration only names the classes, need not be installed.
"""

import contextlib
import io
import json
import sys
from itertools import chain
from typing import Any

from tests.parallel.trainers.absent import stand_in_for

NAMED_ONLY = ("datasets", "google", "grain", "safetensors", "tensorboard", "torchao", "triton", "wandb")


def _verdict(question: dict[str, Any]) -> str:
    from torchtitan.distributed import ParallelDims

    module: dict[str, Any] = {}
    try:
        exec(compile(question["text"], "penstock_plan.py", "exec"), module)
        config = module["plan"]()
        dims = ParallelDims.from_config(config.parallelism, question["world_size"])
        config.model_spec.model.update_from_config(config=config)
        tokens = config.training.num_tokens_per_microbatch_per_dp_rank * config.parallelism.num_pp_microbatches
        if config.training.num_tokens_per_train_step % (tokens * dims.dp_replicate * dims.dp_shard):
            return "the tokens of a step are no multiple of those of the replicas"
        parts = config.parallelism.module_fqns_per_model_part
        names = {f"layers.{layer}" for layer in range(len(config.model_spec.model.layers))}
        if parts and sorted(chain.from_iterable(parts)) != sorted(names | {"tok_embeddings", "norm", "lm_head"}):
            return "the stages do not hold every module once"
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def main() -> None:
    stand_in_for(*NAMED_ONLY)
    sys.path.insert(0, sys.argv[1])
    with contextlib.redirect_stdout(io.StringIO()):
        verdicts = [_verdict(question) for question in json.load(sys.stdin)]
    json.dump(verdicts, sys.stdout)


if __name__ == "__main__":
    main()
