"""Which plans our runtime can run: every rule by a plan that breaks it alone."""

from dataclasses import replace

import pytest

from penstock.core import (
    GPT_LAYER,
    ParallelPlan,
    ParallelStage,
    PipelineSchedule,
    evenly_split,
    first_operator,
    gpt_layers,
    gpt_operators,
    starts_gpt_layer,
    why_not_executable,
)
from penstock.parallel import family_named

OPS = len(gpt_operators(4))
CUT = first_operator(2)
STAGES = ParallelStage.uniform(CUT, tp=2), ParallelStage.uniform(OPS - CUT, tp=2)
GOOD = ParallelPlan(model="gpt-toy", global_batch=8, micro_batch=4, stages=STAGES)
UNEVEN = replace(GOOD, stages=(STAGES[0], ParallelStage.uniform(OPS - CUT, dp=2)))


def test_a_plan_without_fault() -> None:
    assert why_not_executable(GOOD) is None
    assert why_not_executable(UNEVEN) is None
    assert evenly_split(GOOD)
    assert not evenly_split(UNEVEN)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (replace(GOOD, model="llama-7b"), "only the GPT family"),
        (replace(GOOD, stages=STAGES[:1]), "only the GPT family"),
        (
            replace(GOOD, stages=(replace(STAGES[0], tp=(1, *STAGES[0].tp[1:]), dp=(2, *STAGES[0].dp[1:])), STAGES[1])),
            "operators of stage 0 are split in different ways",
        ),
        (replace(GOOD, stages=(STAGES[0], replace(STAGES[1], variant=(1,) * (OPS - CUT)))), "stage 1 swaps"),
        (replace(UNEVEN, schedule=PipelineSchedule.ZERO_BUBBLE), "needs the same tp and dp"),
        (replace(GOOD, schedule=PipelineSchedule.INTERLEAVED, interleave=3), "more than 4 layers"),
        (replace(GOOD, interleave=2), "need the interleaved schedule"),
        (replace(GOOD, schedule=PipelineSchedule.ZERO_BUBBLE, zero=2), "sharded weights"),
    ],
)
def test_every_rule(plan: ParallelPlan, reason: str) -> None:
    assert reason in (why_not_executable(plan) or "")


def test_layers_and_operators() -> None:
    assert [gpt_layers(count) for count in (3, 15, 16, 17, 29)] == [0, 0, 1, 0, 2]
    assert len(gpt_operators(24)) == 1 + 24 * len(GPT_LAYER) + 2
    starts = [index for index in range(OPS) if starts_gpt_layer(index, 4)]
    assert starts == [first_operator(layer) for layer in range(4)]
    assert gpt_operators(4)[first_operator(4)] == "final-norm"


def test_the_planner_prices_the_operators_the_runtime_builds() -> None:
    family = family_named("gpt-350m")
    assert family.chain().names() == gpt_operators(family.layers)
