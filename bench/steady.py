"""A training script whose steps wait for an accelerator instead of computing on this machine's processor.

`steady.py --steps N --step-s S [--plain] [--weak]` takes S seconds for a step on one worker and S / n on n, or with
`--weak` S on any number, as a script with a fixed batch for each device does. With the elastic
library it does all that a real run does (imports, workers, exchange of gradients, checkpoints) but for the computing;
with `--plain` it is a script without the library, which restarts at another width and goes on from what it saved. So
what a benchmark of forecasts measures is the platform, and not who else uses this machine's processor.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-s", type=float, default=0.1)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--weak", action="store_true", help="only with --plain")
    given = parser.parse_args()
    if given.plain:
        plain(given.steps, given.step_s, weak=given.weak)
    else:
        elastic(given.steps, given.step_s)


def elastic(steps: int, step_s: float) -> None:
    import torch
    from torch import nn

    import penstock.elastic

    torch.set_num_threads(1)
    run = penstock.elastic.init()
    model = run.wrap(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run.attach(optimizer=optimizer)
    x = torch.randn(512, 8, generator=torch.Generator().manual_seed(0))
    for step in run.steps((x, x.sum(1, keepdim=True)), global_batch=16, steps=steps):
        with step as (inputs, wanted):
            wait(step_s / run.size)
            step.backward(nn.functional.mse_loss(model(inputs), wanted))
            optimizer.step()
            optimizer.zero_grad()


def plain(steps: int, step_s: float, *, weak: bool) -> None:
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    saved = Path(os.environ.get("PENSTOCK_CHECKPOINT_DIR", ".")) / "step"
    done = int(saved.read_text()) if saved.exists() else 0

    def leave(*_: object) -> None:
        if rank == 0:
            saved.write_text(str(done))
        sys.exit(143)

    signal.signal(signal.SIGTERM, leave)
    for done in range(done + 1, steps + 1):  # noqa: B020
        wait(step_s if weak else step_s / size)
        if rank == 0:
            print(f"penstock: step={done} total={steps}", flush=True)


def wait(seconds: float) -> None:
    """As a host waits for its accelerator: the time is over when it is over, whoever else wants the processor."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(left)


if __name__ == "__main__":
    main()
