"""Finish-time fairness: who is treated worst gets the next lease."""

import math
from dataclasses import replace

import pytest

from penstock.core import JobFinished, JobSubmitted, Tick
from penstock.policies.published.themis import Themis
from tests.policies.views import Row, view
from tests.scheduler.build import job, scheduler


def test_rho_is_the_finish_time_here_over_that_on_a_private_share() -> None:
    rows = [Row(work=100.0, left=60.0), Row(work=400.0, requested=4, submitted=30.0)]
    world = view(*rows, now=50.0)
    alone_on_half_of_four = [100 / 1, 100 / 0.5]
    here = [50 + 60, 20 + 100]
    assert Themis().rho(world).tolist() == pytest.approx([here[i] / alone_on_half_of_four[i] for i in (0, 1)])


def test_the_job_treated_worst_gets_the_free_devices() -> None:
    long_ago, just_now = Row(requested=4, submitted=0.0), Row(requested=4, submitted=90.0)
    assert Themis().allocate(view(just_now, long_ago, now=100.0)).widths.tolist() == [0, 4]


def test_a_lease_protects_even_the_best_treated() -> None:
    lucky = Row(requested=4, width=4, submitted=99.0, stint_since=99.0, plan=((1299.0, 4),))
    assert Themis().allocate(view(lucky, Row(requested=4), now=1000.0)).widths.tolist() == [4, 0]


def test_when_a_lease_ends_the_devices_are_offered_again() -> None:
    had_it = Row(work=5000.0, left=200.0, requested=4, width=4, stint_since=0.0)
    waits = Row(work=5000.0, requested=4)
    world = view(had_it, waits, now=1200.0)
    assert Themis().rho(world)[1] > Themis().rho(world)[0]
    assert Themis().allocate(world).widths.tolist() == [0, 4]


def test_the_worst_treated_may_keep_its_devices_when_its_lease_ends() -> None:
    still_worst = Row(work=100.0, left=90.0, requested=4, width=4, stint_since=0.0)
    newcomer = Row(work=5000.0, requested=4, submitted=1199.0)
    decision = Themis().allocate(view(still_worst, newcomer, now=1200.0))
    assert (decision.widths.tolist(), decision.wake_at) == ([4, 0], 2400.0)


def test_it_wakes_at_the_end_of_the_first_lease() -> None:
    rows = [Row(requested=2, width=2, plan=((1300.0, 2),)), Row(requested=2, width=2, plan=((1250.0, 2),))]
    assert Themis().allocate(view(*rows, now=200.0)).wake_at == 1250.0
    assert Themis(lease_s=60.0).allocate(view(Row(), now=200.0)).wake_at == 260.0
    assert Themis().allocate(view(Row(requested=4), capacity=4, now=0.0)).wake_at == 1200.0


def test_no_lease_no_wake() -> None:
    blocked = view(Row(requested=2), capacity=2)
    assert Themis().allocate(replace(blocked, capacity=1)).wake_at == math.inf


def test_leases_alternate() -> None:
    machine = scheduler("1x1", "themis")
    machine.handle(JobSubmitted(0.0, job("a", 1e4)), JobSubmitted(0.0, job("b", 1e4)))
    holders = []
    for lease in range(5):
        holders.append(next(name for name in "ab" if machine.devices_of(name)))
        machine.handle(Tick(1200.0 * (lease + 1)))
    assert set(holders[:2]) == {"a", "b"}
    assert len(set(holders[2:4])) == 2


def test_a_lease_that_ends_between_two_decisions_ends_at_the_next() -> None:
    machine = scheduler("1x1", "themis", slot=60.0)
    machine.handle(JobSubmitted(0.0, job("a", 1e5)))
    machine.handle(JobSubmitted(1190.0, job("b", 100.0, submitted_at=1190.0)))
    machine.handle(Tick(1250.0))
    assert machine.devices_of("b") == (0,), "the lease of a ended at 1200; the slot only delays that by 50 s"


def test_devices_of_a_job_that_ends_go_to_the_worst_treated() -> None:
    machine = scheduler("1x4", "themis")
    machine.handle(JobSubmitted(0.0, job("a", 400.0, requested=4)))
    machine.handle(JobSubmitted(10.0, job("fresh", 400.0, requested=4, submitted_at=10.0)))
    machine.handle(JobSubmitted(20.0, job("tiny", 4.0, requested=4, submitted_at=20.0)))
    machine.handle(JobFinished(100.0, "a"))
    assert len(machine.devices_of("tiny")) == 4, "it waited 80 s for one second of work"
