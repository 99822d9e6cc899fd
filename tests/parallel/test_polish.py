"""Polishing balances what is unbalanced, drops recomputation nobody needs, and never makes a plan worse."""

import time
from dataclasses import replace
from itertools import pairwise

import pytest

from penstock.core import ParallelPlan, ParallelStage
from penstock.parallel import family_named, mesh_named
from penstock.parallel.full_cost import Prediction
from penstock.parallel.planning.planner import Planner
from penstock.parallel.planning.polish import polished


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner(family=family_named("gpt-350m"), mesh=mesh_named("4xV100-32GB"), batch=64)


def _pipeline(planner: Planner, cuts: tuple[int, ...], *, recompute: bool = False) -> ParallelPlan:
    stages = tuple(ParallelStage.uniform(stop - start, recompute=recompute) for start, stop in pairwise(cuts))
    return ParallelPlan(model="gpt-350m", global_batch=64, micro_batch=1, stages=stages)


def _climb(planner: Planner, plan: ParallelPlan, seconds: float = 60.0) -> tuple[ParallelPlan, Prediction, Prediction]:
    def judge(step: ParallelPlan) -> Prediction | None:
        prediction = planner.predict(step)
        return prediction if planner.fits(prediction) else None

    before = planner.predict(plan)
    after, prediction = polished(plan, before, judge, time.perf_counter() + seconds)
    return after, before, prediction


def test_a_lopsided_pipeline_is_balanced(planner: Planner) -> None:
    size = planner.tables(False, 1).chain.size
    plan, before, after = _climb(planner, _pipeline(planner, (0, 200, 260, 300, size)))
    assert after.iteration_s < 0.6 * before.iteration_s
    assert plan.ops == size
    times = [stage.micro_batch_s for stage in after.stages]
    assert max(times) < 1.15 * min(times)


def test_recomputation_that_memory_does_not_ask_for_is_dropped(planner: Planner) -> None:
    size = planner.tables(False, 1).chain.size
    even = (0, size // 4, size // 2, 3 * size // 4, size)
    plan, before, after = _climb(planner, _pipeline(planner, even, recompute=True))
    assert after.iteration_s < before.iteration_s
    assert not any(flag for stage in plan.stages for flag in stage.recompute)


def test_recomputation_stays_where_memory_is_short(planner: Planner) -> None:
    size = planner.tables(False, 1).chain.size
    full = _pipeline(planner, (0, size // 4, size // 2, 3 * size // 4, size), recompute=True)
    light = planner.predict(full).memory_bytes
    free = planner.predict(_climb(planner, full)[0]).memory_bytes
    tight = replace(planner, mesh=planner.mesh.limited((light + free) / 2), _tables={}, _seen={})
    plan, before, after = _climb(tight, full)
    assert tight.fits(after)
    assert after.iteration_s < before.iteration_s
    assert any(flag for stage in plan.stages for flag in stage.recompute)


def test_no_time_means_no_change(planner: Planner) -> None:
    size = planner.tables(False, 1).chain.size
    plan = _pipeline(planner, (0, 200, 260, 300, size))
    assert _climb(planner, plan, seconds=0.0)[0] == plan
