"""Plans that contradict themselves are refused; those that do not survive being written down."""

import json

import pytest

from penstock.core import ParallelPlan, ParallelStage, PipelineSchedule, PlanError


def _plan(**changes: object) -> ParallelPlan:
    stages = (ParallelStage.uniform(3, tp=2, dp=2), ParallelStage.uniform(2, tp=1, dp=4, recompute=True))
    return ParallelPlan(**{"model": "gpt", "global_batch": 32, "micro_batch": 4, "stages": stages, **changes})  # type: ignore[arg-type]


def test_a_plan_knows_its_size() -> None:
    plan = _plan()
    assert (plan.devices, plan.ops, plan.micro_batches, plan.cuts) == (8, 5, 8, (0, 3, 5))


def test_writing_and_reading_gives_the_same_plan() -> None:
    mixed = ParallelStage(devices=4, tp=(1, 2), dp=(4, 2), recompute=(True, False), variant=(0, 1))
    plan = _plan(stages=(mixed, mixed), schedule=PipelineSchedule.ZERO_BUBBLE, zero=1)
    assert ParallelPlan.from_mapping(json.loads(json.dumps(plan.to_mapping()))) == plan
    assert not mixed.is_uniform


@pytest.mark.parametrize(
    "changes",
    [
        {"stages": ()},
        {"micro_batch": 5},
        {"micro_batch": 2},
        {"context": 2},
        {"stages": (ParallelStage(devices=4, tp=(1,), dp=(2,), recompute=(False,), variant=(0,)),)},
    ],
)
def test_contradictions_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(PlanError, match="Allowed"):
        _plan(**changes)


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(PlanError, match="one entry per operator"):
        ParallelStage(devices=1, tp=(1, 1), dp=(1,), recompute=(False,), variant=(0,))


def test_what_is_not_a_plan_says_so() -> None:
    with pytest.raises(PlanError, match="penstock plan --json"):
        ParallelPlan.from_mapping({"model": "gpt"})
