"""A planned GPT goes on under another plan: real processes, saved under one split, resumed under another."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="plans are run with PyTorch")

from penstock.core import ParallelPlan, ParallelStage, PipelineSchedule, gpt_operators

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
    "sharded state": replace(one_stage(dp=2), zero=1),
    "sharded weights": replace(one_stage(dp=2), zero=3),
    "stages and tensors": replace(two_stages(18, tp=2), schedule=PipelineSchedule.GPIPE),
    "tensors and sharded weights": replace(one_stage(tp=2, dp=2), zero=2),
}


class Trainer:
    """The trainer's processes under one plan, as a backend starts them."""

    def __init__(self, folder: Path, plan: ParallelPlan, *options: str) -> None:
        file = folder / f"plan-{plan.devices}.json"
        file.write_text(json.dumps(plan.to_mapping()), encoding="utf-8")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        command = [sys.executable, "-m", "penstock.runtime.parallel.train", *SIZES, *options]
        around = {
            **os.environ, "PENSTOCK_PLAN": str(file), "WORLD_SIZE": str(plan.devices), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port, "PENSTOCK_CHECKPOINT_DIR": str(folder / "checkpoints"),
        }  # fmt: skip
        self.output = folder / f"output-{plan.devices}-{port}"
        with self.output.open("w") as file_out:
            self.processes = [
                subprocess.Popen(
                    command, env={**around, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=file_out,
                    stderr=file_out,
                )
                for rank in range(plan.devices)
            ]  # fmt: skip

    @property
    def losses(self) -> dict[int, float]:
        told = re.findall(r"step=(\d+) total=\d+ loss=([\d.]+)", self.output.read_text(encoding="utf-8"))
        return {int(step): float(loss) for step, loss in told}

    def wait(self) -> dict[int, float]:
        codes = [process.wait(PATIENCE_S) for process in self.processes]
        assert codes == [0] * len(codes), self.output.read_text(encoding="utf-8")
        return self.losses

    def ask_to_stop(self, after_step: int) -> dict[int, float]:
        until = time.monotonic() + PATIENCE_S
        while after_step not in self.losses:
            assert time.monotonic() < until, self.output.read_text(encoding="utf-8")
            time.sleep(0.02)
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        return self.wait()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """The losses of the undivided model, never interrupted."""
    return Trainer(tmp_path_factory.mktemp("alone"), ALONE, "--steps", str(STEPS)).wait()


def test_the_loss_falls(expected: dict[int, float]) -> None:
    assert sorted(expected) == list(range(1, STEPS + 1))
    assert expected[STEPS] < expected[1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tensors", "stages and tensors"),
        ("sharded state", "tensors and sharded weights"),
        ("sharded weights", "stages"),
    ],
)
def test_another_plan_goes_on_where_the_last_one_stopped(
    tmp_path: Path, expected: dict[int, float], before: str, after: str
) -> None:
    first = Trainer(tmp_path, PLANS[before], "--steps", str(STEPS // 2)).wait()
    second = Trainer(tmp_path, PLANS[after], "--steps", str(STEPS)).wait()
    assert sorted(first) == list(range(1, STEPS // 2 + 1))
    assert sorted(second) == list(range(STEPS // 2 + 1, STEPS + 1))
    assert {**first, **second} == pytest.approx(expected, abs=2e-3)


def test_asked_to_stop_it_saves_and_goes_on_later(tmp_path: Path) -> None:
    """All processes agree on the step after which they save; nothing is done twice or left out."""
    steps = "400"
    done = Trainer(tmp_path, PLANS["tensors"], "--steps", steps).ask_to_stop(after_step=2)
    saved = [path.name for path in (tmp_path / "checkpoints").iterdir()]
    assert saved == [f"step-{max(done):09d}"]
    more = Trainer(tmp_path, PLANS["stages and tensors"], "--steps", str(max(done) + 2)).wait()
    assert sorted(more) == [max(done) + 1, max(done) + 2]
