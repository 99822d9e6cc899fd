"""Training in which one worker is slower than the others, and then gets stuck while it fetches a batch."""

import os
import time
from pathlib import Path

import torch
from torch import nn

import penstock.elastic as elastic
from penstock.runtime.watch import step_clock

SLOW = os.environ["PENSTOCK_WORKER"] == "w2"
step_clock.TELL_EVERY_S = 0.2


class Samples(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        return load_sample(index)


def load_sample(index: int) -> torch.Tensor:
    while SLOW and Path("stuck").exists():
        time.sleep(0.02)
    return torch.full((4,), float(index))


def main() -> None:
    run = elastic.init(timeout_s=60)
    model = run.wrap(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    run.attach(optimizer=optimizer)
    for step in run.steps(Samples(), global_batch=12, steps=1_000_000):
        with step as batch:
            time.sleep(0.06 if SLOW else 0.02)
            step.backward(model(batch).mean())
            optimizer.step()
            optimizer.zero_grad()


main()
