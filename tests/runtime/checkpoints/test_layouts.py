"""A state goes from any world and layout to any other bit for bit: weights and what the optimizer keeps of them."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from penstock.core import ParallelPlan, ParallelStage, gpt_operators
from penstock.elastic import Checkpoints
from penstock.runtime.checkpoints.state import Parts
from penstock.runtime.parallel.chunk import undivided
from penstock.runtime.parallel.gpt import GPTShape
from tests.runtime.agent import Zygote, wait_until

SHAPE = GPTShape(layers=2, hidden=16, heads=4, vocabulary=32, sequence=8)
OPS = len(gpt_operators(SHAPE.layers))
SCRIPT = Path(__file__).parents[1] / "scripts" / "layouts.py"
PATIENCE_S = 240.0


def one_stage(**degrees: int) -> ParallelPlan:
    stage = ParallelStage.uniform(OPS, **degrees)
    return ParallelPlan(model="gpt-toy", global_batch=8, micro_batch=4, stages=(stage,))


def two_stages(cut: int, **degrees: int) -> ParallelPlan:
    stages = ParallelStage.uniform(cut, **degrees), ParallelStage.uniform(OPS - cut, **degrees)
    return replace(one_stage(), stages=stages)


FSDP2 = "fsdp2"
WORLDS: dict[int, list[ParallelPlan | str]] = {
    4: [two_stages(14, tp=2), replace(one_stage(dp=4), zero=3), replace(one_stage(tp=2, dp=2), zero=2), FSDP2],
    2: [one_stage(tp=2), FSDP2, replace(one_stage(dp=2), zero=1), two_stages(10)],
}


def trained() -> Parts:
    """The undivided model in one process, after two steps."""
    parts = Parts(torch.device("cpu"))
    model = undivided(SHAPE, seed=1)
    optimizer = torch.optim.AdamW(model.parameters())
    parts.add("model", model)
    parts.add("optimizer", optimizer)
    for seed in (1, 2):
        tokens = torch.randint(0, SHAPE.vocabulary, (4, SHAPE.sequence), generator=torch.Generator().manual_seed(seed))
        logits: Any = model(tokens)
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return parts


def go_through(zygote: Zygote, folder: Path, size: int) -> None:
    """Have a world of so many processes take the state over in each of its layouts."""
    layouts = [one if isinstance(one, str) else one.to_mapping() for one in WORLDS[size]]
    workers = [f"{folder.name}/{size}/{rank}" for rank in range(size)]
    output = folder / f"output-{size}"
    for rank, worker in enumerate(workers):
        zygote.ask(
            op="fork", id=worker, argv=[str(SCRIPT), str(folder), json.dumps(layouts)],
            env={"RANK": str(rank), "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"}, cwd=str(folder),
            stdout=str(output), stderr=str(output),
        )  # fmt: skip
    for worker in workers:
        ended = wait_until(partial(zygote.event, "exited", worker), f"end of {worker}", PATIENCE_S)
        assert ended["code"] == 0, output.read_text()[-4000:]


@pytest.mark.long
def test_every_layout_takes_over_from_every_other(zygote: Zygote, tmp_path: Path) -> None:
    before = trained()
    expected = before.capture(1).tensors
    torch.save({key: tensor.detach().clone() for key, tensor in expected.items()}, tmp_path / "expected.pt")
    files = Checkpoints(tmp_path / "saved")
    files.begin(before.capture(1))
    files.settle()
    for size in WORLDS:
        go_through(zygote, tmp_path, size)
    manifest, after = files.newest(), trained()
    assert manifest is not None
    assert manifest.step > 5
    with torch.no_grad():
        for parameter in after.models["model"].parameters():
            parameter.zero_()
    files.load(manifest, after)
    found = after.capture(1).tensors
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], tensor) for key, tensor in expected.items())
