"""Runs with a parallel plan for each width: the file their workers read, and a real training that is resized."""

import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.backends import LocalBackend, fake_devices
from penstock.core import ParallelPlan, ParallelStage, Report, ReportKind, gpt_operators
from tests.backends.watching import make_launch, output, until, wait_for_end, wait_for_output, workers

OPS = len(gpt_operators(2))
WHOLE = ParallelPlan(model="gpt-toy", global_batch=8, micro_batch=4, stages=(ParallelStage.uniform(OPS),))
SPLIT = ParallelPlan(
    model="gpt-toy", global_batch=8, micro_batch=4, stages=(ParallelStage.uniform(OPS, tp=2),), sequence_parallel=True
)
STAGED = ParallelPlan(
    model="gpt-toy", global_batch=8, micro_batch=4,
    stages=(ParallelStage.uniform(14, dp=2), ParallelStage.uniform(OPS - 14, dp=2)), zero=1,
)  # fmt: skip
PATIENCE_S = 400.0
TELL = "import json, os, sys, time; print(json.load(open(sys.argv[1]))['zero'], flush=True); time.sleep(60)"


def test_workers_find_the_plan_of_their_width(state_dir: Path) -> None:
    """``{plan}`` and PENSTOCK_PLAN name one file; a resize writes the plan of the new width into it."""
    backend = LocalBackend(state_dir, fake_devices(4))
    backend.launch(make_launch((sys.executable, "-c", TELL, "{plan}"), 2, plans=(SPLIT, STAGED)))
    wait_for_output(backend, "run-1", "[1] 0")
    backend.resize("run-1", workers(4), 1)
    wait_for_output(backend, "run-1", "[3] 1")
    backend.stop("run-1", 5.0)
    wait_for_end(backend, "run-1")


def test_without_plans_braces_stay_and_nothing_is_set(state_dir: Path) -> None:
    backend = LocalBackend(state_dir, fake_devices(1))
    told = "import os, sys; print(sys.argv[1], 'PENSTOCK_PLAN' in os.environ)"
    backend.launch(make_launch((sys.executable, "-c", told, "{plan}")))
    wait_for_end(backend, "run-1")
    assert "{plan} False" in output(backend, "run-1")


def first_told(backend: LocalBackend, kind: ReportKind) -> Report:
    """Patient: several processes import PyTorch before anything is told."""
    found = until(lambda: [r for r in backend.reports("run-1", 0) if r.kind is kind], f"{kind}", PATIENCE_S)
    return found[0]


def test_a_planned_model_trains_on_through_a_resize(state_dir: Path, tmp_path: Path) -> None:
    """Two processes that split tensors are asked to end, save, and one that holds it all goes on from there."""
    pytest.importorskip("torch")
    backend = LocalBackend(state_dir, fake_devices(4))
    sizes = ("--hidden", "64", "--heads", "4", "--vocabulary", "64", "--sequence", "16")
    command = (sys.executable, "-m", "penstock.runtime.parallel.train", "--steps", "100000", *sizes)
    backend.launch(make_launch(command, 2, plans=(WHOLE, SPLIT), checkpoint_dir=str(tmp_path), grace_s=60.0))
    first_told(backend, ReportKind.PROGRESS)
    backend.resize("run-1", workers(1), 1)
    saved = first_told(backend, ReportKind.CHECKPOINTED)
    assert first_told(backend, ReportKind.RESIZED).in_place is False
    step = saved.step or 0
    until(lambda: f"step={step + 1} total=100000" in output(backend, "run-1"), "a step of one process", PATIENCE_S)
    assert f"resumed from step {step} under a plan for 1 devices" in output(backend, "run-1")
    backend.suspend("run-1")
    assert wait_for_end(backend, "run-1").kind is ReportKind.SUSPENDED
    told = [line for line in output(backend, "run-1").splitlines() if " penstock: step=" in line]
    steps = [int(line.partition("step=")[2].split()[0]) for line in told]
    assert all(later == earlier + 1 for earlier, later in pairwise(steps)), "no step is left out or made twice"
    losses = [float(line.partition("loss=")[2]) for line in told]
    border = steps.index(step)
    assert abs(losses[border + 1] - losses[border]) < 0.5, "training goes on where it was"
    assert json.loads((tmp_path / f"step-{steps[-1]:010d}.json").read_text())["step"] == steps[-1]
