"""One process of a world that takes over a state in several layouts, one after the other, and compares every bit.

Of two layouts the second goes on from what the first has saved, or has left in memory.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from penstock.core import ParallelPlan
from penstock.runtime.checkpoints.checkpoint import Checkpoints
from penstock.runtime.checkpoints.layout.chunks import box_of, local_part
from penstock.runtime.checkpoints.memory.snapshots import MemorySnapshots
from penstock.runtime.checkpoints.saving import Interval, Keeper
from penstock.runtime.checkpoints.state import Parts, State
from penstock.runtime.parallel.chunk import undivided
from penstock.runtime.parallel.gpt import GPTShape
from penstock.runtime.parallel.optimizer import PlannedOptimizer
from penstock.runtime.parallel.planned import build
from penstock.runtime.parallel.planned_state import PlannedState
from penstock.runtime.parallel.train import PrintedNews, resume
from penstock.runtime.training.wrapping import Sharded

SHAPE = GPTShape(layers=2, hidden=16, heads=4, vocabulary=32, sequence=8)


def state_of(layout: dict[str, Any] | str) -> State:
    if isinstance(layout, str):
        return sharded_state()
    model = build(ParallelPlan.from_mapping(layout), SHAPE, seed=5)
    return PlannedState(model, PlannedOptimizer(model, torch.optim.AdamW))


def sharded_state() -> State:
    parts = Parts(torch.device("cpu"))
    model = Sharded(undivided(SHAPE, seed=6), torch.device("cpu"), {})
    parts.add("model", model)
    parts.add("optimizer", torch.optim.AdamW(model.parameters()))
    before = parts.parameters()
    model.open(dist.get_world_size())
    parts.follow(before)
    return parts


def compare(state: State, expected: dict[str, torch.Tensor]) -> None:
    """Every number that is here is the one it should be, and every number that should be somewhere is."""
    found = state.capture(0).tensors
    for key, tensor in found.items():
        box = box_of(tensor)
        part = expected[key][tuple(slice(at, stop) for at, stop in zip(box.offset, box.stops, strict=True))]
        assert torch.equal(local_part(tensor), part), key
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, list(found))
    assert {key for keys in everyone for key in keys} == expected.keys()


def main() -> None:
    folder, layouts = Path(sys.argv[1]), json.loads(sys.argv[2])
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting-{size}", rank=rank, world_size=size)
    torch.set_num_threads(1)
    expected = torch.load(folder / "expected.pt", weights_only=True)
    for number, layout in enumerate(layouts):
        state = state_of(layout)
        files = Checkpoints(folder / "saved", memory=MemorySnapshots(folder / "memory"))
        keeper = Keeper(state, PrintedNews(), files, Interval(None, None))
        step = resume(keeper)
        compare(state, expected)
        if number % 2:
            keeper.remember(step + 1, is_main=rank == 0)
            keeper.settle()
        else:
            assert keeper.save_and_wait(step + 1, is_main=rank == 0)
        dist.barrier()


main()
