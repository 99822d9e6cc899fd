"""A job that needs much of the cluster starts although small jobs keep coming, and tenants that are behind grow."""

import pytest

from penstock.core import Curve, Job, JobSubmitted
from penstock.policies import policy_named
from penstock.policies.queue_head import NO_JOB, Queue
from tests.policies.views import Row, whole_view
from tests.scheduler.build import job, scheduler
from tests.simulate.build import by_name, run

_HOUR = 3600.0


def _gang_world(*, resumable: bool = True) -> list[Job]:
    """A gang of half of 16 devices for two hours; jobs of one to three devices use three quarters of the cluster."""
    small = [
        job(f"s{n}", 2400.0 * (1 + n % 3), submitted_at=400.0 * n, tenant=f"t{n % 4}", requested=1 + n % 2,
            at_least=1 + n % 2, at_most=1 + n % 2, resumable=resumable, curve=Curve.from_table({1: 1.0, 2: 1.0}))
        for n in range(120)
    ]  # fmt: skip
    gang = job("gang", 7200.0, submitted_at=2 * _HOUR, tenant="t0", requested=12, at_least=12, at_most=12,
               curve=Curve.from_table({12: 1.0}))  # fmt: skip
    return sorted([*small, gang], key=lambda each: each.submitted_at)


@pytest.mark.parametrize("resumable", [True, False])
def test_a_gang_starts_although_small_jobs_keep_coming(resumable: bool) -> None:
    jobs = _gang_world(resumable=resumable)
    gang = by_name(run(jobs, "2x8", "unified", 60.0))["gang"]
    without = by_name(run(jobs, "2x8", "deadline", 60.0))["gang"]
    assert gang.finished_at - gang.submitted_at < 2 * 2 * _HOUR < without.finished_at - without.submitted_at
    assert gang.suspensions <= 3


def test_the_more_of_the_cluster_a_job_needs_the_sooner_it_is_due() -> None:
    rows = [Row(work=1e4, requested=width, at_least=width, at_most=width, curve=Curve.from_table({width: 1.0}))
            for width in (1, 2, 4, 8)]  # fmt: skip
    patience = Queue(6 * _HOUR).patience_s(whole_view(*rows, capacity=8))
    assert patience.tolist() == pytest.approx([6 * _HOUR * (1 - part) ** 3 for part in (1 / 8, 1 / 4, 1 / 2, 1.0)])
    short = Row(work=60.0, requested=4, at_least=4, at_most=4, curve=Curve.from_table({4: 1.0}))
    assert Queue(6 * _HOUR).patience_s(whole_view(short, capacity=8)).tolist() == pytest.approx([10 * 60.0 / 8])


def test_all_waiting_counts_and_a_job_that_runs_stays_due() -> None:
    queue, capacity = Queue(1000.0), 4
    waits = Row(work=1e5, at_most=1, waited_s=300.0, stint_since=100.0)
    runs = Row(work=1e5, at_most=1, waited_s=500.0, stint_since=100.0, width=1)
    patience = 1000.0 * 0.75**3
    view = whole_view(waits, runs, now=200.0, capacity=capacity)
    assert queue.due_since(view).tolist() == pytest.approx([100.0 + patience - 300.0, 100.0 - (500.0 - patience)])
    assert queue.head(view, queue.due_since(view)) == NO_JOB
    later = whole_view(waits, runs, now=300.0, capacity=capacity)
    assert queue.head(later, queue.due_since(later)) == 0


def test_jobs_that_cannot_resume_leave_free_devices_to_the_head_unless_they_end_in_time() -> None:
    """Two slots, a job for both, and a stream of jobs for one of them that cannot resume."""
    stream = [job(f"s{n}", 15.0, submitted_at=7.0 * n, at_most=1, resumable=False) for n in range(40)]
    both = job("both", 10.0, submitted_at=8.0, requested=2, at_least=2, at_most=2, resumable=False,
               curve=Curve.from_table({2: 1.0}))  # fmt: skip
    jobs = sorted([*stream, both], key=lambda each: each.submitted_at)
    assert by_name(run(jobs, "1x2", "unified", 0.0))["both"].started_at <= 30.0


def test_a_tenant_that_is_behind_grows_before_others_start() -> None:
    """One tenant's jobs could fill the cluster one device each; the other tenant's job gets its tenant's share."""
    greedy = [job(f"g{n}", 3000.0, submitted_at=30.0 * n, tenant="greedy", at_most=4) for n in range(300)]
    small = [job(f"s{n}", 4000.0, submitted_at=5000.0 * n, tenant="small", at_most=4) for n in range(2)]
    jobs = sorted([*greedy, *small], key=lambda each: each.submitted_at)
    fair = by_name(run(jobs, "1x8", "unified", 30.0))
    for name in ("s0", "s1"):  # 1,000 s on its share of four devices, 4,000 s on one
        assert fair[name].finished_at - fair[name].submitted_at < 2200.0


def test_no_job_is_suspended_more_often_than_the_bound() -> None:
    """Each of many short jobs is cheaper than the long one, and there is no lease where one tenant has all jobs."""
    long = job("long", 2000.0, requested=4, at_least=4, at_most=4)
    short = [job(f"s{n}", 20.0, submitted_at=5.0 + 30.0 * n, at_most=1) for n in range(60)]
    result = by_name(run([long, *short], "1x4", "deadline", 0.0))
    assert result["long"].suspensions == 8


def test_why_says_when_devices_are_reserved_and_how_often_a_job_was_suspended() -> None:
    row = Row(work=1e5, requested=2, at_least=2, at_most=2, stint_since=0.0)
    other = Row(width=4, work=1e5, at_least=4)
    said = [policy_named("unified").explain(whole_view(other, row, now=now), 1) for now in (0.0, 2000.0, 6000.0)]
    assert "devices are reserved for it in 45m if it still waits" in said[0]
    assert "devices are reserved for it in 11m 40s if it still waits" in said[1]
    assert "it is the head of the queue" in said[2]


def test_why_counts_suspensions() -> None:
    machine = scheduler("1x4", "deadline", stories=True)
    machine.handle(JobSubmitted(0.0, job("long", 2000.0, requested=4, at_least=4, at_most=4)))
    machine.handle(JobSubmitted(5.0, job("short", 20.0, submitted_at=5.0, at_most=1)))
    assert "it was suspended once, at most 8 times for anything less than a promise" in machine.why("long").now
