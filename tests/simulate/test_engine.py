"""A clock that jumps from event to event: nothing ticks, nothing is random, faults come in between."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import Cluster, Deadline, JobCancelled, NodeJoined, NodeLost, WorkerFailed
from penstock.policies import POLICIES
from penstock.simulate import Fate
from penstock.simulate.traces import Profiles, generate, jobs_of
from tests.simulate.build import by_name, job, run


def test_jobs_run_exactly_as_projected() -> None:
    jobs = [job("a", requested=2), job("b", at=10.0, requested=4), job("c", at=20.0, requested=2)]
    lives = {name: (outcome.started_at, outcome.finished_at) for name, outcome in by_name(run(jobs)).items()}
    assert lives == {"a": (0.0, 50.0), "b": (50.0, 75.0), "c": (75.0, 125.0)}, "c would delay b"


@pytest.mark.parametrize("policy", ["fifo", "srtf", "edf", "elasticflow", "deadline"])
def test_the_clock_jumps_however_long_a_job_runs(policy: str) -> None:
    result = run([job("a", 1e9), job("b", 1e9, at=1e6)], policy=policy, slot=60.0)
    assert result.summary.unfinished == 0
    assert result.summary.rounds <= 8, "two arrivals, two ends, and what was planned in between"


ROUNDS = {"astraea", "chronus", "gandiva", "gavel", "optimus", "pollux", "sia", "themis"}
"""These decide again after a quantum, a round or a lease, although nothing happens."""


@pytest.mark.parametrize("policy", sorted(set(POLICIES) - ROUNDS))
def test_decisions_are_bounded_by_events(policy: str) -> None:
    jobs = list(jobs_of(generate(60, seed=3, profiles=Profiles.builtin(), mean_interval_s=600.0), Profiles.builtin()))
    result = run(jobs, "2x8", policy, slot=60.0)
    assert result.summary.rounds <= 6 * len(jobs)


@pytest.mark.parametrize("policy", ["deadline", "gandiva", "tiresias"])
def test_the_same_jobs_give_the_same_outcome(policy: str) -> None:
    jobs = list(jobs_of(generate(40, seed=5, profiles=Profiles.builtin(), mean_interval_s=300.0), Profiles.builtin()))
    first, second = (run(jobs, "2x4", policy, slot=60.0) for _ in range(2))
    assert repr(first.outcomes) == repr(second.outcomes)
    assert first.summary.rounds == second.summary.rounds


def test_what_happens_within_a_slot_waits_for_its_end() -> None:
    jobs = [job("a", 30.0, requested=4), job("b", 40.0, at=5.0, requested=4), job("c", 40.0, at=61.0, requested=4)]
    outcome = by_name(run(jobs, slot=60.0))
    assert (outcome["a"].started_at, outcome["a"].finished_at) == (0.0, 7.5), "the first decision is immediate"
    assert (outcome["b"].started_at, outcome["b"].finished_at) == (60.0, 70.0)
    assert outcome["c"].started_at == 120.0, "the next decision after that of 60"


def test_arrivals_within_a_slot_are_one_decision() -> None:
    jobs = [job("first")] + [job(f"j{i}", at=1.0 + i) for i in range(20)]
    assert run(jobs, "1x32", slot=60.0).summary.rounds == 4, "0, 60, and the ends: 100, 160"


def test_a_lost_node_costs_the_work_since_the_last_checkpoint() -> None:
    jobs = [job("a", 1000.0, checkpoint_every_s=10.0)]
    faults = [NodeLost(25.0, "node-1"), NodeJoined(100.0, Cluster.parse("2x2").nodes[1])]
    result = run(jobs, "2x2", "edf", faults=faults)
    left_at_return = 1000 - 20 * 4 - 75 * 2
    outcome = by_name(result)["a"]
    assert outcome.finished_at == 100 + left_at_return / 4
    assert (outcome.suspensions, outcome.rescales) == (1, 1)
    assert outcome.device_seconds == 25 * 4 + 75 * 2 + left_at_return


def test_a_failed_worker_and_a_cancellation() -> None:
    jobs = [job("a", checkpoint_every_s=8.0, requested=2), job("b", 1e6, requested=2)]
    result = run(jobs, faults=[WorkerFailed(10.0, "a"), JobCancelled(30.0, "b")])
    outcome = by_name(result)
    assert outcome["a"].finished_at == 10 + (100 - 16) / 2
    assert (outcome["b"].fate, outcome["b"].device_seconds) == (Fate.CANCELLED, 60.0)


def test_faults_do_not_wait_for_the_slot() -> None:
    result = run([job("a", 1000.0, requested=2)], "2x2", slot=60.0, faults=[NodeLost(10.0, "node-0")])
    assert by_name(result)["a"].suspensions == 1
    assert by_name(result)["a"].finished_at == 60 + 1000 / 2, "nothing was saved, and the next decision is at 60"


def test_a_job_for_which_nothing_is_left_stays_unfinished() -> None:
    result = run([job("a", 1000.0)], "1x4", faults=[NodeLost(10.0, "node-0")])
    assert by_name(result)["a"].fate is Fate.UNFINISHED
    assert math.isnan(by_name(result)["a"].finished_at)


def test_a_job_no_device_can_hold_is_declined() -> None:
    result = run([job("a", at_least=8), job("b")])
    assert {name: outcome.fate for name, outcome in by_name(result).items()} == {"a": Fate.DECLINED, "b": Fate.DONE}


def test_a_job_may_end_in_the_instant_another_arrives() -> None:
    jobs = [job("a", requested=4), job("b", at=25.0, requested=4)]
    assert by_name(run(jobs))["b"].started_at == 25.0


def test_no_jobs_no_rounds() -> None:
    result = run([])
    assert (result.outcomes, result.summary.rounds, result.summary.makespan_s) == ([], 0, 0.0)


def test_progress_is_reported_now_and_then() -> None:
    seen: list[int] = []
    run([job(f"j{i}", 1.0, at=2.0 * i) for i in range(400)], on_progress=seen.append)
    assert seen == sorted(seen)
    assert 2 <= len(seen) <= 4
    assert seen[-1] > 300


def test_a_refusal_costs_no_extra_round() -> None:
    jobs = [job(f"j{i}", goal=Deadline(1000.0 * i + 5.0), at=1000.0 * i) for i in range(5)]
    result = run(jobs, policy="elasticflow", slot=60.0)
    assert result.summary.declined == 5
    assert result.summary.rounds == 5, "one decision per arrival; a refusal leaves nothing to decide"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["fifo", "edf", "elasticflow", "deadline"]), st.sampled_from([0.0, 60.0]))
def test_the_books_balance(seed: int, policy: str, slot: float) -> None:
    profiles = Profiles.builtin()
    jobs = list(jobs_of(generate(15, seed=seed, profiles=profiles, mean_interval_s=900.0, best_effort=0.2), profiles))
    result = run(jobs, "2x4", policy, slot=slot, timeline=True)
    assert len(result.outcomes) == len(jobs) == len({outcome.id for outcome in result.outcomes})
    held = sum(outcome.device_seconds for outcome in result.outcomes)
    assert result.timeline is not None
    assert sum(bar.count * (bar.end - bar.start) for bar in result.timeline.bars) == pytest.approx(held)
    assert 0.0 <= result.summary.utilisation <= 1.0 + 1e-9
    for outcome in result.outcomes:
        assert not outcome.started_at < outcome.submitted_at
        assert not outcome.finished_at <= outcome.started_at
        assert not (outcome.promised and outcome.fate is Fate.LATE)
