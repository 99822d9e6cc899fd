"""A small elastic training script that writes down what it did."""

import argparse
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import penstock.elastic as elastic
from penstock.runtime.checkpoints.memory.shard_lines import ShardLines

SAMPLES = 203


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.head = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = torch.tanh(block(x)) + x
        return self.head(x)


def write(kind: str, **fields: object) -> None:
    with Path(f"{kind}-{os.environ.get('PENSTOCK_WORKER', 'w0')}").open("a") as file:
        file.write(json.dumps(fields) + "\n")


def die_in_the_middle_of_a_shard(die: Callable[[], None]) -> None:
    plain = ShardLines._send

    def half(lines: ShardLines, parts: tuple[torch.Tensor, ...]) -> None:
        *head, shard = parts
        plain(lines, (*head, shard[: len(shard) // 2]))
        die()
        plain(lines, (shard[len(shard) // 2 :],))

    ShardLines._send = half  # type: ignore[method-assign,assignment]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--micro", type=int)
    parser.add_argument("--strategy", default="ddp")
    parser.add_argument("--unused", action="store_true", help="have DDP look for parameters without gradients")
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16")
    parser.add_argument("--sleep", type=float, default=0.0)
    parser.add_argument("--hurry", default="", help="sleep no more once this file exists")
    parser.add_argument("--linger", default="", help="do not end before this file exists")
    parser.add_argument("--save-steps", type=int)
    parser.add_argument("--memory", default="", help="keep snapshots below this directory, on a machine of one's own")
    parser.add_argument("--memory-steps", type=int)
    parser.add_argument("--die", default="", help="worker:step:where: before, backward, after or exchange")
    args = parser.parse_args()
    doomed, when, where = (args.die or "::").split(":")

    # Every worker begins with other weights: those of w0 must win, and only if w0 is the first.
    torch.manual_seed(7 if os.environ.get("PENSTOCK_WORKER", "w0") == "w0" else os.getpid())
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(SAMPLES, 8, generator=generator)
    y = x.pow(2).sum(1, keepdim=True).sin()

    own = f"{args.memory}/{os.environ.get('PENSTOCK_WORKER', 'w0')}" if args.memory else None
    run = elastic.init(
        checkpoint_steps=args.save_steps, timeout_s=20, memory_dir=own, memory_steps=args.memory_steps
    )  # fmt: skip
    net = Net()
    options = {"find_unused_parameters": True} if args.unused else {}
    model = run.wrap(net, strategy=args.strategy, **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.9)
    run.attach(optimizer=optimizer, scheduler=scheduler)

    def die(point: str, number: int) -> None:
        if doomed == os.environ.get("PENSTOCK_WORKER") and number == int(when) and where == point:
            os.kill(os.getpid(), signal.SIGKILL)

    if where == "exchange":
        die_in_the_middle_of_a_shard(lambda: die("exchange", run.completed))
    for step in run.steps((x, y), global_batch=args.batch, steps=args.steps, seed=3, micro_batch=args.micro):
        with step as batch:
            write("share", step=step.number, samples=step.samples, rank=run.rank, generation=run.generation)
            time.sleep(0.0 if args.hurry and Path(args.hurry).exists() else args.sleep)
            die("before", step.number)
            for bx, by in step.parts() if args.micro else [batch]:
                with torch.autocast(run.device.type, torch.bfloat16, enabled=args.bf16):
                    predicted = model(bx)
                loss = nn.functional.mse_loss(predicted.float(), by)
                if doomed and where == "backward" and step.number == int(when):
                    loss.register_hook(lambda _: die("backward", int(when)))
                step.backward(loss)
            die("after", step.number)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            write(
                "step", step=step.number, loss=step.loss, rank=run.rank, size=run.size,
                generation=run.generation, lr=scheduler.get_last_lr()[0], pid=os.getpid(),
            )  # fmt: skip
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    while args.linger and not Path(args.linger).exists():
        time.sleep(0.01)
    write("end", completed=run.completed, device=str(run.device), weights=[float(p.detach().sum()) for p in whole])


main()
