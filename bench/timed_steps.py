"""An elastic script with steps of a tenth of a second; every worker writes down when it completed which step.

The directory it runs in gets one file for each worker of each attempt, with a time and a step on every line.
"""

import os
import time
from itertools import pairwise
from pathlib import Path

STEP_S = 0.1
SAVE_STEPS = 20
STEPS = 1_000_000


def completed_steps(folder: Path) -> list[tuple[float, int]]:
    """What all workers wrote so far, in the order of time."""
    lines = [line for file in folder.glob("steps-*") for line in file.read_text().split("\n")[:-1]]
    return sorted((float(at), int(step)) for at, step in (line.split() for line in lines))


def last_step(folder: Path) -> int:
    return max((number for _, number in completed_steps(folder)), default=-1)


def longest_halt(folder: Path, since: float) -> float:
    """The longest time after ``since`` without a step that had not been completed before."""
    best, new_at = -1, []
    for at, step in completed_steps(folder):
        if step > best:
            best = step
            new_at.append(at)
    return max(after - before for before, after in pairwise(new_at) if after > since)


def main() -> None:
    import torch
    from torch import nn

    import penstock.elastic as elastic

    torch.set_num_threads(1)
    run = elastic.init(checkpoint_steps=SAVE_STEPS, timeout_s=30)
    model = run.wrap(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run.attach(optimizer=optimizer)
    x = torch.randn(256, 8, generator=torch.Generator().manual_seed(1))
    file = Path(f"steps-{os.environ['PENSTOCK_WORKER']}-{os.environ['PENSTOCK_ATTEMPT']}")
    for step in run.steps((x, x.sum(1, keepdim=True)), global_batch=12, steps=STEPS, seed=3):
        with step as (bx, by):
            time.sleep(STEP_S)
            step.backward(nn.functional.mse_loss(model(bx), by))
            optimizer.step()
            optimizer.zero_grad()
        if not step.lost:
            with file.open("a") as lines:
                lines.write(f"{time.time()!r} {step.number}\n")


if __name__ == "__main__":
    main()
