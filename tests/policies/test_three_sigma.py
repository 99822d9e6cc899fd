"""3Sigma-like: expected value over the distribution of run times."""

import math

import numpy as np
import pytest

from penstock.policies import policy_named
from penstock.policies.published.three_sigma import ThreeSigma
from tests.policies.views import Row, view


def test_the_value_is_the_probability_of_being_in_time() -> None:
    world = view(*(Row(due=due) for due in (1.0, 100.0, 140.0, 1000.0)))
    worth = ThreeSigma().expected_values(world, 0.0)
    assert worth.tolist() == pytest.approx([0.0, 0.5, 0.75, 1.0], abs=1e-3)
    assert ThreeSigma(spread=0.0).expected_values(world, 0.0).tolist() == [0.0, 0.5, 1.0, 1.0]


def test_a_job_without_a_deadline_is_worth_less_the_later_it_ends() -> None:
    policy, world = ThreeSigma(spread=0.0), view(Row(work=100.0))
    assert [policy.expected_values(world, delay).tolist() for delay in (0.0, 50.0, 200.0)] == [
        [pytest.approx(worth)] for worth in (0.1, 0.05, -0.1)
    ]


def test_among_jobs_without_a_deadline_the_least_device_time_goes_first_however_long_it_waited() -> None:
    short, long = Row(work=400.0, requested=4), Row(work=4000.0, requested=4)
    assert ThreeSigma().allocate(view(long, short, now=5000.0)).widths.tolist() == [0, 4]


def test_who_loses_most_by_waiting_runs_first() -> None:
    relaxed, urgent = Row(due=1e6, requested=4), Row(due=300.0, requested=4)
    assert ThreeSigma().allocate(view(relaxed, urgent)).widths.tolist() == [0, 4]


def test_a_deadline_with_time_to_spare_lets_a_job_without_one_go_first() -> None:
    relaxed, best_effort = Row(due=1e6, requested=4), Row(requested=4)
    assert ThreeSigma().allocate(view(relaxed, best_effort)).widths.tolist() == [0, 4]


def test_an_urgent_deadline_takes_the_devices_of_a_job_without_one_and_of_nobody_else() -> None:
    urgent = Row(work=400.0, due=200.0, requested=4)
    for due, widths in ((None, [0, 4]), (5000.0, [4, 0])):
        runs = Row(work=1e4, width=4, requested=4, due=due)
        assert ThreeSigma().allocate(view(runs, urgent)).widths.tolist() == widths


def test_it_looks_again_while_a_deadline_comes_near_that_could_take_devices() -> None:
    runs, relaxed = Row(work=1e4, width=4, requested=4), Row(due=1e6, requested=4)
    assert ThreeSigma().allocate(view(runs, relaxed, now=7.0)).wake_at == 307.0
    assert ThreeSigma().allocate(view(runs, Row())).wake_at == math.inf


@pytest.mark.parametrize("spread", [0.25, 1.0, 2.0])
def test_run_times_spread_log_normally(spread: float) -> None:
    policy = policy_named(f"3sigma:spread={spread}")
    assert isinstance(policy, ThreeSigma)
    within = 100.0 * np.exp(spread * np.array([-1.0, 0.0, 1.0]))
    assert policy.chances(np.full(3, 100.0), within).tolist() == pytest.approx([0.1587, 0.5, 0.8413], abs=1e-3)
