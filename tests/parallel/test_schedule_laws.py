"""Laws of pipelines, overlap and uniform plans that hold whatever the stages, schedules and degrees."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import PipelineSchedule
from penstock.parallel import Planner, Prediction, family_named, mesh_named
from penstock.parallel.full_cost import StageTimes, in_flight, iteration_s, overlapped
from penstock.parallel.planning.uniform_plans import Degrees, Recompute, plan_of

times = st.floats(0.01, 10.0)
stages = st.lists(
    st.tuples(times, times).map(lambda pair: StageTimes(pair[0], 2 * pair[1], pair[1])), min_size=1, max_size=8
)
schedules = st.sampled_from(list(PipelineSchedule))
many = st.integers(1, 32)
CLOSE = 1 + 1e-9


def work_of(stage: StageTimes, micro_batches: int) -> float:
    return iteration_s([stage], micro_batches, PipelineSchedule.ONE_F_ONE_B)


@given(stages, many, schedules, st.integers(1, 4))
def test_no_schedule_is_faster_than_its_slowest_stage(
    found: list[StageTimes], micro_batches: int, schedule: PipelineSchedule, chunks: int
) -> None:
    slowest = max(work_of(stage, micro_batches) for stage in found)
    assert iteration_s(found, micro_batches, schedule, chunks) * CLOSE >= slowest


@given(stages, many, schedules)
def test_a_further_stage_never_shortens_an_iteration(
    found: list[StageTimes], micro_batches: int, schedule: PipelineSchedule
) -> None:
    longer = iteration_s([*found, found[-1]], micro_batches, schedule)
    assert iteration_s(found, micro_batches, schedule) <= longer * CLOSE


@given(stages, many, schedules)
def test_twice_the_micro_batches_take_less_than_twice_the_time(
    found: list[StageTimes], micro_batches: int, schedule: PipelineSchedule
) -> None:
    once, twice = (iteration_s(found, number, schedule) for number in (micro_batches, 2 * micro_batches))
    assert once < twice <= 2 * once * CLOSE


@given(stages, many)
def test_better_schedules_have_smaller_bubbles(found: list[StageTimes], micro_batches: int) -> None:
    plain = iteration_s(found, micro_batches, PipelineSchedule.ONE_F_ONE_B)
    assert iteration_s(found, micro_batches, PipelineSchedule.ZERO_BUBBLE) <= plain * CLOSE
    assert iteration_s(found, micro_batches, PipelineSchedule.INTERLEAVED, chunks=4) <= plain * CLOSE


@given(st.integers(1, 16), many, schedules)
def test_later_stages_hold_no_more_activations(count: int, micro_batches: int, schedule: PipelineSchedule) -> None:
    held = [in_flight(number, count, micro_batches, schedule) for number in range(count)]
    assert held == sorted(held, reverse=True)
    assert all(0 < each <= micro_batches + count for each in held)


@given(times, times, st.floats(1.0, 2.0))
def test_overlap_hides_some_of_the_communication_and_never_more_than_all(
    communication_s: float, compute_s: float, slowdown: float
) -> None:
    seen = overlapped(communication_s, compute_s, slowdown)
    assert max(0.0, communication_s - compute_s) <= seen + 1e-9
    assert seen <= communication_s + 1e-9


@cache
def planner() -> Planner:
    return Planner(family=family_named("gpt-350m", 512), mesh=mesh_named("8xA100-80GB"), batch=64)


def predicted(pp: int = 1, tp: int = 1, micro_batch: int = 1, zero: int = 0, again: bool = False) -> Prediction:
    made, recompute = planner(), Recompute.FULL if again else Recompute.NONE
    degrees = Degrees(pp, tp, made.mesh.devices // (pp * tp), 1, micro_batch)
    plan = plan_of(
        degrees, made.tables(False, 1).chain, made.family, 64, zero=zero, recompute=recompute, sequence_parallel=False
    )
    assert plan is not None
    return made.predict(plan)


@pytest.mark.parametrize(("pp", "tp"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_recomputing_saves_memory_and_costs_time(pp: int, tp: int) -> None:
    plain, again = predicted(pp, tp), predicted(pp, tp, again=True)
    assert again.memory_bytes < plain.memory_bytes
    assert again.iteration_s > plain.iteration_s


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_sharding_more_of_the_state_needs_no_more_memory(tp: int) -> None:
    needed = [predicted(tp=tp, zero=level).memory_bytes for level in (0, 1, 2, 3)]
    assert needed == sorted(needed, reverse=True)


@pytest.mark.parametrize("pp", [1, 2, 4])
def test_larger_micro_batches_hold_more_activations(pp: int) -> None:
    needed = [predicted(pp, micro_batch=size).memory_bytes for size in (1, 2, 4)]
    assert needed == sorted(needed)


def test_no_plan_uses_more_than_the_peak_of_its_devices() -> None:
    for pp, tp in ((1, 1), (2, 2), (8, 1), (1, 8)):
        assert 0 < predicted(pp, tp).utilisation < 1
