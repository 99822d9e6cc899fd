"""Training under FSDP2 in which one worker is slower than the others in its layers, as long as a file says so."""

import os
import time
from pathlib import Path

import torch
from torch import nn

import penstock.elastic as elastic
from penstock.runtime.watch import step_clock

SLOW = os.environ["PENSTOCK_WORKER"] == "w2"
step_clock.TELL_EVERY_S = 0.2


class Layer(nn.Module):
    """Computing is played by sleeping, so that workers do not take each other's processors."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        time.sleep(0.04 if SLOW and Path("slow").exists() else 0.01)
        return features + self.linear(features)


def main() -> None:
    run = elastic.init(timeout_s=60)
    layers = [Layer() for _ in range(3)]
    model = run.wrap(nn.Sequential(*layers, nn.Linear(16, 1)), strategy="fsdp2", blocks=(Layer,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    run.attach(optimizer=optimizer)
    data = torch.utils.data.TensorDataset(torch.randn(24, 16))
    for step in run.steps(data, global_batch=24, steps=1_000_000):
        with step as batch:
            step.backward(model(batch[0]).mean())
            optimizer.step()
            optimizer.zero_grad()


main()
