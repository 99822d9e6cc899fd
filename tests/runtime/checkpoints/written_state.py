"""A small checkpoint with every kind of content, the same whichever Python and PyTorch write it.

``python -m tests.runtime.checkpoints.written_state`` writes one for the interpreter it runs in, beside those that
:mod:`tests.runtime.checkpoints.test_versions` reads.
"""

import platform
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from penstock.elastic import Checkpoints
from penstock.runtime.checkpoints.state import Parts

WRITTEN = Path(__file__).parent / "written"
STEP = 412


class Everything:
    """A part of a run whose state holds what states of schedulers, loaders and generators hold."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = state


def content() -> dict[str, Any]:
    """Nothing in it depends on a version: no random numbers, no arithmetic that libraries may round differently."""
    return {
        "order": OrderedDict(b=1, a=[1.5, None, True]), "milestones": Counter({30: 1, 60: 2}), "best": float("inf"),
        "betas": (0.9, 0.999), "seen": {3, 5}, "raw": b"\x00\xff", 7: "a key that is no text", "large": 2**200,
        "rng": torch.arange(16, dtype=torch.uint8), "legacy": ("MT19937", np.arange(4, dtype=np.uint32), 3),
        "dtype": torch.bfloat16, "scale": np.float64(0.1),
    }  # fmt: skip


def parts(*, empty: bool = False) -> Parts:
    """A model of several types with its optimizer after a step; ``empty``: the same, to be filled."""
    found = Parts(torch.device("cpu"))
    model = torch.nn.ParameterDict({
        "of_" + str(dtype).removeprefix("torch."): torch.nn.Parameter(torch.zeros(3, 5, dtype=dtype))
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16)
    })  # fmt: skip
    model.register_buffer("count", torch.zeros((), dtype=torch.int64))
    model.register_buffer("mask", torch.zeros(4, dtype=torch.bool))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, betas=(0.9, 0.99))
    found.add("model", model)
    found.add("optimizer", optimizer)
    found.add("scheduler", torch.optim.lr_scheduler.StepLR(optimizer, 7))
    found.add("everything", Everything({} if empty else content()))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    if not empty:
        _number(found)
    return found


@torch.no_grad()
def _number(found: Parts) -> None:
    for place, tensor in enumerate(found.capture(0).tensors.values()):
        tensor.copy_((torch.arange(tensor.numel()).reshape(tensor.shape) + place) % 251)


def write(folder: Path) -> None:
    files = Checkpoints(folder, keep=1)
    files.begin(parts().capture(STEP))
    files.settle()


if __name__ == "__main__":
    write(WRITTEN / f"python-{platform.python_version()}-torch-{torch.__version__.partition('+')[0]}")
