"""Progressive filling on hand-made profiles, and what holds for any."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.policies import PLAN_STEPS, Plans, filling
from penstock.policies.filling import (
    UNREACHABLE,
    breakpoint_at,
    fill,
    finish_time,
    follow,
    grow,
    lay,
    new_profile,
    profile_of,
    released,
    smallest_share,
    usable,
    width_at,
)
from penstock.tools.jit import ENABLED

LEVELS = np.array([1, 2, 4])
RATES = np.array([1.0, 2.0, 4.0])
NO_PAUSE = np.zeros(3)


def profile(*steps: tuple[float, int], room: int = 64) -> tuple[np.ndarray, np.ndarray, int]:
    """Free devices from each time on."""
    times, free = np.zeros(room), np.zeros(room, dtype=np.int64)
    for k, (at, devices) in enumerate(steps):
        times[k], free[k] = at, devices
    return times, free, len(steps)


def ends(
    steps: list[tuple[float, int]], *, cap: int = 2, left: float = 30.0, limit: float = math.inf, **more: Any
) -> float:
    pauses, start, held = more.get("pauses", NO_PAUSE), more.get("start", 0.0), more.get("held", 0)
    return float(finish_time(*profile(*steps), LEVELS, RATES, pauses, start, 3, cap, held, left, limit))


@pytest.mark.parametrize(("free", "index"), [(0, -1), (1, 0), (2, 1), (3, 1), (4, 2), (99, 2)])
def test_the_widest_level_that_fits(free: int, index: int) -> None:
    assert usable(LEVELS, 3, free) == index


def test_padding_is_not_a_level() -> None:
    assert usable(np.array([1, 2, 2, 2]), 2, 99) == 1


@pytest.mark.parametrize(("cap", "end"), [(0, 30.0), (1, 10 + 20 / 2), (2, 10 + 20 / 4)])
def test_a_job_takes_what_is_free_up_to_its_cap(cap: int, end: float) -> None:
    assert ends([(0.0, 1), (10.0, 4)], cap=cap) == end


def test_a_job_waits_where_nothing_is_free() -> None:
    assert ends([(0.0, 0), (10.0, 2), (15.0, 0), (40.0, 4)]) == 40 + 20 / 4


def test_a_job_that_never_finds_devices_never_ends() -> None:
    assert ends([(0.0, 0)]) == math.inf


@pytest.mark.parametrize(("limit", "end"), [(15.0, 15.0), (14.999, math.inf), (10.0, math.inf), (5.0, math.inf)])
def test_an_end_after_the_limit_is_none(limit: float, end: float) -> None:
    assert ends([(0.0, 1), (10.0, 4)], limit=limit) == end


def test_every_change_of_width_costs_its_pause() -> None:
    pauses = np.array([3.0, 5.0, 7.0])
    steps = [(0.0, 1), (10.0, 4)]
    assert ends(steps, pauses=pauses, held=1) == 10 + 7 + 20 / 4, "already on one device"
    assert ends(steps, pauses=pauses, held=0) == 10 + 7 + (30 - 7) / 4, "three seconds to start"
    assert ends(steps, pauses=pauses, held=4) == 10 + 7 + (30 - 7) / 4, "three seconds to shrink"


def test_a_pause_may_outlast_what_is_free() -> None:
    assert ends([(0.0, 1), (10.0, 0), (20.0, 1)], pauses=np.array([15.0, 15.0, 15.0]), left=5.0) == 20 + 15 + 5


@pytest.mark.parametrize(
    ("limit", "level", "end"),
    [(30.0, 0, 30.0), (29.0, 1, 20.0), (20.0, 1, 20.0), (19.0, 2, 15.0), (14.0, UNREACHABLE, math.inf)],
)
def test_the_smallest_share_that_is_in_time(limit: float, level: int, end: float) -> None:
    times, free, count = profile((0.0, 1), (10.0, 4))
    assert smallest_share(times, free, count, LEVELS, RATES, NO_PAUSE, 0.0, 3, 0, 30.0, limit) == (level, end)


def test_a_reservation_is_taken_off_the_profile_and_written_down() -> None:
    times, free, count = profile((0.0, 1), (10.0, 4))
    at, width = np.zeros(PLAN_STEPS), np.zeros(PLAN_STEPS, dtype=np.int64)
    count = lay(times, free, count, LEVELS, 3, 1, 20.0, 0.0, at, width)
    assert (times[:count].tolist(), free[:count].tolist()) == ([0.0, 10.0, 20.0], [0, 2, 4])
    assert (at[:4].tolist(), width[:4].tolist()) == ([0.0, 10.0, 20.0, math.inf], [1, 2, 0, 0])


def test_a_breakpoint_is_made_once() -> None:
    times, free, count = profile((0.0, 1), (10.0, 4))
    assert breakpoint_at(times, free, count, 5.0) == (1, 3)
    assert breakpoint_at(times, free, 3, 5.0) == (1, 3)
    assert breakpoint_at(times, free, 3, 99.0) == (3, 4)
    assert (times[:4].tolist(), free[:4].tolist()) == ([0.0, 5.0, 10.0, 99.0], [1, 1, 4, 4])


def test_devices_count_as_free_at_the_second_decision_after_the_end() -> None:
    assert released(100.0, 130.0, 0.0) == 130.0
    assert [released(100.0, end, 60.0) for end in (100.0, 101.0, 160.0, 161.0)] == [160.0, 220.0, 220.0, 280.0]


def plan_of(*steps: tuple[float, int]) -> tuple[np.ndarray, np.ndarray]:
    plans = Plans.none(1)
    for k, (at, width) in enumerate(steps):
        plans.at[0, k], plans.width[0, k] = at, width
    return plans.at, plans.width


def test_a_plan_grants_what_it_says_at_any_time() -> None:
    at, width = plan_of((10.0, 1), (20.0, 4), (30.0, 0))
    assert [width_at(at[0], width[0], now) for now in (5.0, 10.0, 19.0, 20.0, 30.0, 99.0)] == [0, 1, 1, 4, 0, 0]


def test_what_plans_leave_free() -> None:
    at, width = plan_of((0.0, 1), (20.0, 0), (30.0, 4), (40.0, 0))
    times, free, count = profile_of(10.0, 5, np.array([0]), at, width, 0)
    assert list(zip(times[:count].tolist(), free[:count].tolist(), strict=True)) == [
        (10.0, 4),
        (20.0, 5),
        (30.0, 1),
        (40.0, 5),
    ]


@pytest.mark.parametrize(("left", "end"), [(15.0, 25.0), (20.0, 30 + 5 / 4), (55.0, 40.0), (56.0, math.inf)])
def test_following_a_plan(left: float, end: float) -> None:
    at, width = plan_of((0.0, 1), (25.0, 0), (30.0, 4), (40.0, 0))
    finish = follow(
        10.0, np.array([0]), np.array([left]), np.array([1e9]), np.array([1]), LEVELS[None], RATES[None],
        NO_PAUSE[None], np.zeros(1), np.array([3]), at, width,
    )  # fmt: skip
    assert finish[0] == end


def test_following_a_plan_to_an_end_after_the_limit_is_a_miss() -> None:
    at, width = plan_of((0.0, 1), (100.0, 0))
    arguments = (np.array([1]), LEVELS[None], RATES[None], NO_PAUSE[None], np.zeros(1), np.array([3]), at, width)
    assert follow(0.0, np.array([0]), np.array([50.0]), np.array([50.0]), *arguments)[0] == 50.0
    assert follow(0.0, np.array([0]), np.array([50.0]), np.array([49.0]), *arguments)[0] == math.inf


def batch(*jobs: tuple[float, float]) -> tuple[np.ndarray, ...]:
    """Jobs of proportional speed as (work, limit): everything ``fill`` wants after the order."""
    rows = len(jobs)
    return (
        np.array([work for work, _ in jobs]), np.array([limit for _, limit in jobs]), np.zeros(rows, dtype=np.int64),
        np.tile(LEVELS, (rows, 1)), np.tile(RATES, (rows, 1)), np.zeros((rows, 3)), np.zeros(rows),
        np.full(rows, 3),
    )  # fmt: skip


def test_each_in_turn_gets_the_least_that_is_in_time() -> None:
    finish, at, width = fill(0.0, 4, np.array([0, 1, 2]), *batch((100.0, 100.0), (60.0, 40.0), (10.0, 5.0)), 0.0, False)
    assert finish.tolist() == [100.0, 30.0, math.inf]
    assert width[:2, :2].tolist() == [[1, 0], [2, 0]]
    assert at[2].tolist() == [math.inf] * PLAN_STEPS


def test_widest_takes_all_it_can_use() -> None:
    finish, _, width = fill(0.0, 4, np.array([1, 0]), *batch((100.0, 100.0), (60.0, 40.0)), 0.0, True)
    assert finish.tolist() == [15 + 25.0, 15.0]
    assert width[:, :2].tolist() == [[0, 4], [4, 0]]


def test_what_a_job_frees_counts_a_margin_later() -> None:
    finish, _, _ = fill(0.0, 4, np.array([0, 1]), *batch((60.0, 15.0), (40.0, 1e6)), 10.0, True)
    assert finish.tolist() == [15.0, 30 + 10.0]


def test_candidates_join_only_where_nobody_is_harmed() -> None:
    forgiven = np.zeros(3, dtype=bool)
    jobs = batch((100.0, 25.0), (40.0, 20.0), (40.0, 35.0))
    order = grow(0.0, 4, np.array([0]), np.array([1, 2]), forgiven, *jobs, 0.0, False)
    assert order.tolist() == [0, 2]
    assert grow(0.0, 4, np.array([0]), np.array([1, 2]), ~forgiven, *jobs, 0.0, False).tolist() == [1, 0, 2]


@pytest.mark.parametrize("run", [lay, getattr(lay, "py_func", lay)], ids=["compiled", "plain"])
def test_a_plan_never_outgrows_its_row(run: Callable[..., int]) -> None:
    """The job is done in the last step a plan can have, but its devices stay reserved over further breakpoints."""
    steps = [(float(k), 1 + k % 2) for k in range(PLAN_STEPS + 4)]
    done_at = float(finish_time(*profile(*steps), LEVELS, RATES, NO_PAUSE, 0.0, 3, 1, 0, 22.0, math.inf))
    assert PLAN_STEPS - 2 < done_at <= PLAN_STEPS - 1
    at, width = np.full(PLAN_STEPS + 8, -7.0), np.full(PLAN_STEPS + 8, -7)
    times, free, count = profile(*steps)
    run(times, free, count, LEVELS, 3, 1, done_at, 1.0, at[:PLAN_STEPS], width[:PLAN_STEPS])
    assert set(at[PLAN_STEPS:]) == {-7.0}, "it wrote into somebody else's memory"
    assert set(width[PLAN_STEPS:]) == {-7}
    assert (free[:count] >= 0).all()


def test_a_job_on_a_long_staircase_does_not_write_into_the_next_row() -> None:
    """17 narrow jobs end one slot after the other; a wide one grows with every end, more often than a plan can say."""
    narrow, slot, idle = 17, 60.0, 10
    work = np.array([*(slot * (i + 1) for i in range(narrow)), 930.0, 1.0])
    limit = np.array([*work[:narrow], 950.0, math.inf])
    levels = np.tile(np.arange(1, 41), (narrow + 2, 1))
    rates = 1.0 + levels / 1e6
    depth = np.array([*[1] * narrow, 40, 40])
    held, pauses = np.zeros(narrow + 2, dtype=np.int64), np.zeros_like(rates)
    order = np.arange(narrow + 1)
    starts = np.zeros(narrow + 2)
    _, at, width = fill(0.0, narrow + idle, order, work, limit, held, levels, rates, pauses, starts, depth, slot, True)
    assert np.isinf(at[-1]).all(), "nobody planned anything for the last row"
    assert not width[-1].any()


@st.composite
def crowds(draw: st.DrawFn) -> tuple[Any, ...]:
    count = draw(st.integers(1, 7))
    tables = [np.array([1, 2, 4, 8]), np.array([2, 4, 4, 4]), np.array([1, 1, 1, 1]), np.array([1, 3, 6, 6])]
    levels = np.array([tables[draw(st.integers(0, 3))] for _ in range(count)])
    depth = np.array([len(set(row)) for row in levels.tolist()])
    growth = st.floats(1.05, 2.0)
    rates = np.array([np.cumprod([draw(st.floats(0.5, 4.0)), *(draw(growth) for _ in range(3))]) for _ in range(count)])
    for row in range(count):
        rates[row, depth[row] :] = rates[row, depth[row] - 1]
    work = np.array([draw(st.floats(1.0, 500.0)) for _ in range(count)])
    limit = np.array([draw(st.one_of(st.just(math.inf), st.floats(10.0, 900.0))) for _ in range(count)])
    held = np.array([draw(st.sampled_from([0, *row])) for row in levels.tolist()])
    pause = draw(st.sampled_from([0.0, 0.0, 4.0]))
    order = np.array(draw(st.permutations(range(count))))
    capacity, margin = draw(st.integers(1, 10)), draw(st.sampled_from([0.0, 1.0, 60.0]))
    pauses = np.where(levels > 1, 2 * pause, pause)
    starts = np.array([draw(st.sampled_from([0.0, 0.0, 9.0])) for _ in range(count)])
    return 5.0, capacity, order, work, limit, held, levels, rates, pauses, starts, depth, margin, draw(st.booleans())


def work_done(job: int, until: float, crowd: tuple[Any, ...], at: np.ndarray, width: np.ndarray) -> float:
    """Iterations a job makes on its plan by ``until``, counted step by step."""
    now, _, _, _, _, held, levels, rates, pauses, starts, depth, _, _ = crowd
    done, before = 0.0, int(held[job])
    for k in range(PLAN_STEPS - 1):
        begin, end, here = float(at[job, k]), min(float(at[job, k + 1]), until), int(width[job, k])
        if here and end > begin:
            index = levels[job, : depth[job]].tolist().index(here)
            ready = begin + (pauses[job, index] if here != before else 0.0) + (0.0 if before else starts[job])
            done += rates[job, index] * max(end - ready, 0.0)
        before = here
    assert at[job, 0] == now
    return done


@settings(max_examples=150, deadline=None)
@given(crowds())
def test_plans_are_in_time_do_the_work_and_fit(crowd: tuple[Any, ...]) -> None:
    now, capacity, _, work, limit, _, levels, _, _, _, depth, _, _ = crowd
    finish, at, width = fill(*crowd)
    planned = np.flatnonzero(np.isfinite(finish))
    for job in range(len(work)):
        if job not in planned:
            assert np.isinf(at[job]).all()
            assert not width[job].any()
    for job in planned:
        assert now < finish[job] <= limit[job]
        assert work_done(job, float(finish[job]), crowd, at, width) == pytest.approx(work[job], rel=1e-6)
        assert set(width[job].tolist()) <= {0, *levels[job, : depth[job]].tolist()}
    for moment in np.unique(at[np.isfinite(at)]):
        assert sum(width_at(at[job], width[job], moment) for job in planned) <= capacity


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return getattr(function, "py_func", function)


@settings(max_examples=60, deadline=None)
@given(crowds())
def test_compiled_and_plain_agree(crowd: tuple[Any, ...]) -> None:
    now, capacity, order, work, limit, held, levels, rates, pauses, starts, depth, _, _ = crowd
    _, at, width = laid_out = fill(*crowd)
    for one, other in zip(laid_out, plain(fill)(*crowd), strict=True):
        assert np.array_equal(one, other)
    following = (now, order, work, limit, held, levels, rates, pauses, starts, depth, at, width)
    assert np.array_equal(follow(*following), plain(follow)(*following))
    times, free, count = profile_of(now, capacity, order, at, width, 1)
    plain_times, plain_free, plain_count = plain(profile_of)(now, capacity, order, at, width, 1)
    assert count == plain_count
    assert np.array_equal(times[:count], plain_times[:count])
    assert np.array_equal(free[:count], plain_free[:count])


@settings(max_examples=100, deadline=None)
@given(crowds())
def test_a_plan_that_is_followed_ends_as_planned(crowd: tuple[Any, ...]) -> None:
    now, _, order, work, limit, held, levels, rates, pauses, starts, depth, _, _ = crowd
    finish, at, width = fill(*crowd)
    again = follow(now, order, work, limit, held, levels, rates, pauses, starts, depth, at, width)
    reached = np.isfinite(finish)
    assert np.isinf(again[~reached]).all()
    assert np.isfinite(again[reached]).all(), "not even rounding may turn a plan into a miss"
    assert again[reached] == pytest.approx(finish[reached], rel=1e-9)


def test_an_empty_cluster_is_all_free() -> None:
    times, free = new_profile(7.0, 16, 3)
    assert (times[0], free[0]) == (7.0, 16)
    assert len(times) >= 3 * PLAN_STEPS


def test_every_loop_of_the_module_is_compiled() -> None:
    loops = [value for name, value in vars(filling).items() if callable(value) and value.__module__ == filling.__name__]
    assert len(loops) >= 12
    assert all(hasattr(loop, "py_func") == ENABLED for loop in loops)
