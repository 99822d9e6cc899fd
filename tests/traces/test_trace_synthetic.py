"""Traces out of a seed."""

import math
from collections import Counter
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import InputError, TraceError
from penstock.simulate.traces import Profiles, TraceJob, generate, interval_for_load, jobs_of

BUILTIN = Profiles.builtin()


def _jobs(count: int = 20_000, **options: object) -> list[TraceJob]:
    options = {"seed": 1, "profiles": BUILTIN, "mean_interval_s": 60.0} | options
    return list(generate(count, **options))  # type: ignore[arg-type]


@given(chunk=st.integers(1, 400), seed=st.integers(0, 2**64))
def test_the_same_seed_gives_the_same_trace_in_chunks_of_any_size(chunk: int, seed: int) -> None:
    options = {"best_effort": 0.3, "daily_swing": 0.5, "tenants": 3, "seed": seed}
    assert _jobs(300, chunk=chunk, **options) == _jobs(300, **options)


def test_a_longer_trace_starts_with_the_shorter_one() -> None:
    assert _jobs(500)[:100] == _jobs(100)


def test_seeds_differ() -> None:
    assert _jobs(10, seed=1) != _jobs(10, seed=2)


def test_nothing_is_drawn_ahead_of_a_chunk() -> None:
    endless = generate(10**12, seed=0, profiles=BUILTIN, mean_interval_s=1.0, chunk=10)
    assert [job.id for job in islice(endless, 3)] == ["job-0", "job-1", "job-2"]


def test_arrivals_are_ordered_and_have_the_mean_interval() -> None:
    times = [job.submitted_at for job in _jobs()]
    assert all(a <= b for a, b in pairwise(times))
    assert times[-1] / len(times) == pytest.approx(60, rel=0.03)


def test_sizes_and_durations_follow_the_mix() -> None:
    jobs = _jobs()
    share = {size: count / len(jobs) for size, count in Counter(job.devices for job in jobs).items()}
    assert share[1] == pytest.approx(0.83, abs=0.01)
    assert share[8] == pytest.approx(0.10, abs=0.01)
    short = sum((job.duration_s or 0) < 60 * 10**2.5 for job in jobs) / len(jobs)
    assert short == pytest.approx(0.8, abs=0.01)
    assert min(job.duration_s or 0 for job in jobs) >= 600
    assert max(job.duration_s or 0 for job in jobs) <= 600_000


def test_deadlines_lie_in_the_range() -> None:
    jobs = _jobs(lambda_range=(2.0, 3.0))
    slacks = [((job.deadline or 0) - job.submitted_at) / (job.duration_s or 1) for job in jobs]
    assert min(slacks) == pytest.approx(2, abs=0.01)
    assert max(slacks) == pytest.approx(3, abs=0.01)


def test_best_effort_takes_deadlines_away_and_changes_nothing_else() -> None:
    some, none = _jobs(best_effort=0.2), _jobs(best_effort=0.0)
    assert sum(job.deadline is None for job in some) / len(some) == pytest.approx(0.2, abs=0.01)
    assert [job.submitted_at for job in some] == [job.submitted_at for job in none]
    assert all(job.deadline is None for job in _jobs(100, best_effort=1.0))


def test_iterations_match_the_curve() -> None:
    for job in _jobs(500):
        rate = BUILTIN.curve(job.model, job.batch).rate(job.devices)
        assert job.iterations == math.floor((job.duration_s or 0) * rate)


def test_the_daily_cycle_keeps_the_mean_and_moves_the_rate() -> None:
    times = [job.submitted_at for job in _jobs(daily_swing=0.8)]
    noon = sum(6 * 3600 < at % 86400 < 18 * 3600 for at in times) / len(times)
    assert noon == pytest.approx(0.5 + 0.8 / math.pi, abs=0.03)
    assert times[-1] / len(times) == pytest.approx(60, rel=0.1)


def test_tenants_submit_equally_often() -> None:
    counts = Counter(job.tenant for job in _jobs(tenants=4))
    assert set(counts) == {"tenant-1", "tenant-2", "tenant-3", "tenant-4"}
    assert min(counts.values()) > 0.9 * max(counts.values())
    assert {job.tenant for job in _jobs(10)} == {"default"}


def test_the_interval_for_a_load_offers_that_load() -> None:
    interval = interval_for_load(0.7, 128)
    jobs = _jobs(200_000, mean_interval_s=interval)
    asked = sum(job.devices * (job.duration_s or 0) for job in jobs)
    assert asked / (jobs[-1].submitted_at * 128) == pytest.approx(0.7, rel=0.03)


def test_only_profiles_that_run_are_drawn(profiles: Profiles) -> None:
    jobs = _jobs(2000, profiles=profiles)
    assert all((job.model, job.batch) in profiles.fitting(job.devices) for job in jobs)
    assert len(list(jobs_of(jobs, profiles))) == 2000


@pytest.mark.parametrize(
    "options",
    [
        {"mean_interval_s": 0.0},
        {"mean_interval_s": math.nan},
        {"lambda_range": (0.0, 1.0)},
        {"lambda_range": (2.0, 1.0)},
        {"best_effort": 1.5},
        {"daily_swing": 1.0},
        {"tenants": 0},
        {"sizes": ((1, 0.5),)},
        {"durations": ((0.5, 1.0, 2.0), (0.6, 2.0, 3.0))},
        {"seed": -1},
    ],
)
def test_impossible_wishes_are_refused_before_anything_is_drawn(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        _jobs(1, **options)


def test_a_size_nobody_can_run_on() -> None:
    from penstock.core import Curve

    narrow = Profiles("narrow", {("wide", 8): Curve.from_table({4: 1.0})})
    with pytest.raises(TraceError, match="no profile of narrow runs on 1 devices"):
        _jobs(1, profiles=narrow)


@pytest.mark.parametrize(("load", "devices"), [(0, 8), (-1, 8), (math.inf, 8), (0.5, 0)])
def test_impossible_loads(load: float, devices: int) -> None:
    with pytest.raises(InputError, match="a load above 0"):
        interval_for_load(load, devices)
