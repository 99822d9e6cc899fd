"""Train a planned GPT: ``torchrun --nproc-per-node N -m penstock.runtime.parallel.train PLAN.json --steps 20``.

The plan is what ``penstock plan --json`` wrote. The text is made up on the spot (runs of counting bytes), so that the
command needs nothing but the plan; the loss falls quickly if the plan computes what it should.
"""

import argparse
import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from penstock.core import ParallelPlan, gpt_layers
from penstock.runtime.parallel.gpt import GPTShape
from penstock.runtime.parallel.optimizer import PlannedOptimizer
from penstock.runtime.parallel.planned import build


def main() -> None:
    options = _options()
    plan = read_plan(options.plan)
    device = _join()
    shape = GPTShape(
        layers=gpt_layers(plan.ops),
        hidden=options.hidden,
        heads=options.heads,
        vocabulary=256,
        sequence=options.sequence,
    )
    model = build(plan, shape, device=device)
    optimizer = PlannedOptimizer(model, lambda weights: torch.optim.AdamW(weights, lr=options.lr))
    for step in range(1, options.steps + 1):
        loss = model.step(*counting(plan.global_batch, shape.sequence, seed=step))
        optimizer.step()
        if loss is not None and dist.get_rank() == dist.get_world_size() - 1:
            print(f"penstock: step={step} total={options.steps} loss={loss.item():.4f}", flush=True)
    dist.destroy_process_group()


def read_plan(path: Path) -> ParallelPlan:
    """A plan, alone or inside what ``penstock plan --json`` prints."""
    value = json.loads(path.read_text())
    return ParallelPlan.from_mapping(value.get("plan", value))


def counting(samples: int, sequence: int, seed: int) -> tuple[Tensor, Tensor]:
    """Bytes that count up from a random start, and the byte that follows each."""
    generator = torch.Generator().manual_seed(seed)
    start = torch.randint(0, 256, (samples, 1), generator=generator)
    text = (start + torch.arange(sequence + 1)) % 256
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="penstock.runtime.parallel.train", description="Train a planned GPT.")
    parser.add_argument("plan", type=Path, help="the JSON file that `penstock plan --json` wrote")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--sequence", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    return parser.parse_args()


def _join() -> torch.device:
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl")
        return device
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    return torch.device("cpu")


if __name__ == "__main__":
    main()
