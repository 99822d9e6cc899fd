"""An elastic script with steps of a tenth of a second; every worker writes down when it completed which step.

The directory it runs in gets one file for each worker of each attempt, with a time and a step on every line.
"""

import os
import time
from pathlib import Path

STEP_S = 0.1
SAVE_STEPS = 20
STEPS = 1_000_000


def completed_steps(folder: Path) -> list[tuple[float, int]]:
    """What all workers wrote so far, in the order of time."""
    lines = [line for file in folder.glob("steps-*") for line in file.read_text().split("\n")[:-1]]
    return sorted((float(at), int(step)) for at, step in (line.split() for line in lines))


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
