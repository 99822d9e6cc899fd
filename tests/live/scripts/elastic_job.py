"""An elastic job that keeps books: what every worker took into a step, and whose step the final state is made of.

The environment variable ``CHAOS_BOOKS`` names a directory. A worker appends ``took`` to its own file there before the
gradients of a step are exchanged, and ``done`` after the step has closed around it. The *lineage* travels with the
state (to newcomers, into checkpoints and back): for every completed step the mark of the world that made it.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import penstock.elastic as elastic

BOOKS = Path(os.environ["CHAOS_BOOKS"])
RUN = os.environ["TORCHELASTIC_RUN_ID"]
NAME = f"{os.environ['PENSTOCK_JOB_ID']}-{RUN}-{os.environ['PENSTOCK_ATTEMPT']}-{os.environ['PENSTOCK_WORKER']}"
PAUSE_S = 0.15


class Lineage:
    """The world that made each completed step of the state it belongs to."""

    def __init__(self) -> None:
        self.marks: list[str] = []

    def state_dict(self) -> dict[str, Any]:
        return {"marks": self.marks}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.marks = list(state["marks"])


class Numbers:
    """Cheap samples; the index is all that matters."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.tensor([index / self._count, 1.0])
        return x, x[:1] * 2


def write(kind: str, **fields: Any) -> None:
    """One line in one system call: a worker that is killed leaves a whole line or none."""
    line = json.dumps({"kind": kind, "at": time.monotonic(), **fields}) + "\n"
    handle = os.open(BOOKS / f"{NAME}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, line.encode())
    os.close(handle)


def linger(step: int, place: int) -> None:
    """Spend time in one of three places of a step, so that blows fall before, between and after what matters."""
    if step % 3 == place and (BOOKS / "slow").exists():
        time.sleep(PAUSE_S)


def main(samples: int, batch: int, epochs: int) -> None:
    torch.set_num_threads(1)
    run = elastic.init(checkpoint_steps=20, timeout_s=30)
    model = run.wrap(nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    lineage = Lineage()
    run.attach(optimizer=optimizer, lineage=lineage)
    for step in run.steps(Numbers(samples), global_batch=batch, epochs=epochs, seed=5):
        mark = f"{RUN}/{os.environ['PENSTOCK_ATTEMPT']}/{run.generation}"
        about = {"mark": mark, "step": step.number, "epoch": step.epoch, "rank": run.rank, "size": run.size}
        with step as (x, y):
            write("took", samples=step.samples, **about)
            linger(step.number, 0)
            step.backward(nn.functional.mse_loss(model(x), y))
            linger(step.number, 1)
            optimizer.step()
            optimizer.zero_grad()
            lineage.marks.append(mark)
            linger(step.number, 2)
        if not step.lost:
            write("done", **about)
    write("final", run=RUN, lineage=lineage.marks)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
