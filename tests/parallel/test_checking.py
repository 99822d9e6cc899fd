"""``--check``: a toy of the planned model in real processes, or the reason why not."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")

from penstock.core import ParallelPlan, ParallelStage, PipelineSchedule
from penstock.parallel import Checked, check_plan
from penstock.parallel.planning.check import MOST_PROCESSES, shrunk

OPS = 3 + 13 * 2
uniform = ParallelStage.uniform


def plan_of(*stages: ParallelStage, batch: int = 512, micro_batch: int = 64, **more: object) -> ParallelPlan:
    return ParallelPlan(model="gpt-toy", global_batch=batch, micro_batch=micro_batch, stages=stages, **more)  # type: ignore[arg-type]


def test_a_pipeline_of_tensor_split_replicas_computes_the_same() -> None:
    plan = plan_of(uniform(10, tp=2, dp=8), uniform(OPS - 10, tp=2, dp=8, recompute=True), zero=1)
    found = check_plan(plan)
    assert found.equal is True, found.words
    assert found.processes == 8
    assert "equal: 8 processes" in found.words


def test_a_plan_our_runtime_cannot_run_is_export_only() -> None:
    found = check_plan(replace(plan_of(uniform(OPS, dp=8)), model="llama-7b"))
    assert found.equal is None
    assert found.words.startswith("export only: only the GPT family runs here")


def test_too_many_processes_are_not_started() -> None:
    found = check_plan(plan_of(*(uniform(13, tp=8) for _ in range(2)), uniform(3, tp=8)))
    assert found.equal is None
    assert f"at most {MOST_PROCESSES}" in found.words


def test_a_deviation_is_not_called_equal() -> None:
    found = Checked(equal=False, processes=2, loss_error=0.5, gradient_error=0.1)
    assert found.words.startswith("NOT equal: loss off by 5.0e-01")


def test_shrinking_keeps_what_could_be_wrong() -> None:
    plan = plan_of(
        uniform(10, tp=2, dp=16), uniform(OPS - 10, tp=4, dp=8), micro_batch=128, zero=1,
        schedule=PipelineSchedule.GPIPE,
    )  # fmt: skip
    toy = shrunk(plan)
    assert [(stage.tp[0], stage.dp[0], stage.ops) for stage in toy.stages] == [(2, 2, 10), (4, 1, OPS - 10)]
    assert (toy.schedule, toy.zero, toy.cuts) == (plan.schedule, plan.zero, plan.cuts)
    assert toy.micro_batches == 4
    assert toy.micro_batch == 2


def test_replicas_stay_replicas() -> None:
    assert [shrunk(plan_of(uniform(OPS, dp=dp))).devices for dp in (64, 2, 1)] == [2, 2, 1]
