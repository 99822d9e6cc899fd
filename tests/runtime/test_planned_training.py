"""A planned GPT goes on under another plan: real processes, saved under one split, resumed under another."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("torch")

from penstock.core import ParallelPlan, ParallelStage, PipelineSchedule, gpt_operators
from tests.runtime.agent import Zygote, wait_until
from tests.tools import needs
from tests.tools.ports import free_port

LAYERS, STEPS = 2, 6
OPS = len(gpt_operators(LAYERS))
SIZES = ("--hidden", "64", "--heads", "4", "--vocabulary", "64", "--sequence", "16")
PATIENCE_S = 180.0


def one_stage(**degrees: int) -> ParallelPlan:
    stage = ParallelStage.uniform(OPS, **degrees)
    return ParallelPlan(model="gpt-toy", global_batch=8, micro_batch=4, stages=(stage,))


def two_stages(cut: int, **degrees: int) -> ParallelPlan:
    stages = ParallelStage.uniform(cut, **degrees), ParallelStage.uniform(OPS - cut, **degrees)
    return ParallelPlan(model="gpt-toy", global_batch=8, micro_batch=4, stages=stages)


ALONE = one_stage()
PLANS = {
    "tensors": one_stage(tp=2),
    "stages": two_stages(14),
    "stages split in different ways": replace(
        one_stage(), stages=(ParallelStage.uniform(14, tp=2), ParallelStage.uniform(OPS - 14, dp=2)), zero=1
    ),
    "sharded state": replace(one_stage(dp=2), zero=1),
    "sharded weights": replace(one_stage(dp=2), zero=3),
    "stages and tensors": replace(two_stages(18, tp=2), schedule=PipelineSchedule.GPIPE),
    "tensors and sharded weights": replace(one_stage(tp=2, dp=2), zero=2),
}


class Trainer:
    """The trainer's processes under one plan, forked from a warm interpreter as a backend does it."""

    _started = 0

    def __init__(self, zygote: Zygote, folder: Path, plan: ParallelPlan, *options: str) -> None:
        Trainer._started += 1
        file = folder / f"plan-{plan.devices}.json"
        file.write_text(json.dumps(plan.to_mapping()), encoding="utf-8")
        self.output = folder / f"output-{Trainer._started}"
        self.output.touch()
        self._zygote = zygote
        self._workers = [f"planned/{Trainer._started}/{rank}" for rank in range(plan.devices)]
        around = {
            "PENSTOCK_PLAN": str(file), "WORLD_SIZE": str(plan.devices), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()), "PENSTOCK_CHECKPOINT_DIR": str(folder / "checkpoints"),
        }  # fmt: skip
        for rank, worker in enumerate(self._workers):
            zygote.ask(
                op="fork", id=worker, argv=["-m", "penstock.runtime.parallel.train", *SIZES, *options],
                env={**around, "RANK": str(rank), "LOCAL_RANK": str(rank)}, cwd=str(folder), stdout=str(self.output),
                stderr=str(self.output),
            )  # fmt: skip

    @property
    def losses(self) -> dict[int, float]:
        return losses_in(self.output.read_text(encoding="utf-8"))

    def wait(self) -> dict[int, float]:
        for worker in self._workers:
            ended = wait_until(partial(self._zygote.event, "exited", worker), f"end of {worker}", PATIENCE_S)
            assert ended["code"] == 0, self.output.read_text(encoding="utf-8")
        return self.losses

    def ask_to_stop(self, after_step: int) -> dict[int, float]:
        wait_until(lambda: after_step in self.losses, f"step {after_step}", PATIENCE_S)
        for worker in self._workers:
            started = self._zygote.event("started", worker)
            assert started is not None
            os.kill(started["pid"], signal.SIGTERM)
        return self.wait()


def losses_in(text: str) -> dict[int, float]:
    return {int(step): float(loss) for step, loss in re.findall(r"step=(\d+) total=\d+ loss=([\d.]+)", text)}


Train = Callable[..., Trainer]


@pytest.fixture(scope="module")
def train(zygote: Zygote) -> Train:
    return partial(Trainer, zygote)


@pytest.fixture(scope="module")
def expected(train: Train, tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """The losses of the undivided model, never interrupted."""
    return train(tmp_path_factory.mktemp("alone"), ALONE, "--steps", str(STEPS)).wait()


def test_the_loss_falls(expected: dict[int, float]) -> None:
    assert sorted(expected) == list(range(1, STEPS + 1))
    assert expected[STEPS] < expected[1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tensors", "stages and tensors"),
        ("sharded state", "tensors and sharded weights"),
        ("sharded weights", "stages split in different ways"),
    ],
)
def test_another_plan_goes_on_where_the_last_one_stopped(
    train: Train, tmp_path: Path, expected: dict[int, float], before: str, after: str
) -> None:
    first = train(tmp_path, PLANS[before], "--steps", str(STEPS // 2)).wait()
    second = train(tmp_path, PLANS[after], "--steps", str(STEPS)).wait()
    assert sorted(first) == list(range(1, STEPS // 2 + 1))
    assert sorted(second) == list(range(STEPS // 2 + 1, STEPS + 1))
    assert {**first, **second} == pytest.approx(expected, abs=2e-3)


def test_asked_to_stop_it_saves_and_goes_on_later(train: Train, tmp_path: Path) -> None:
    """All processes agree on the step after which they save; nothing is done twice or left out."""
    steps = "400"
    done = train(tmp_path, PLANS["tensors"], "--steps", steps).ask_to_stop(after_step=2)
    saved = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert saved == [f"step-{max(done):010d}", f"step-{max(done):010d}.json"]
    more = train(tmp_path, PLANS["stages and tensors"], "--steps", str(max(done) + 2)).wait()
    assert sorted(more) == [max(done) + 1, max(done) + 2]


def test_torchrun_needs_nothing_but_a_plan(tmp_path: Path, expected: dict[int, float]) -> None:
    needs.names()
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"plan": PLANS["stages"].to_mapping()}), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         "-m", "penstock.runtime.parallel.train", str(file), "--steps", "3", *SIZES],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert losses_in(done.stdout) == pytest.approx({step: expected[step] for step in (1, 2, 3)}, abs=2e-3)
