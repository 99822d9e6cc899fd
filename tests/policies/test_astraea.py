"""Devices go in leases to the tenant and to the job that got least of what they deserve."""

import numpy as np
import pytest

from penstock.core import JobSubmitted, Tick
from penstock.policies.fairness import fairness_class
from penstock.policies.published.astraea import Astraea
from penstock.scheduler.fairness import TenantFlows
from tests.policies.views import Row, view, whole_view
from tests.scheduler.build import job, scheduler


def test_classes_are_symmetric_around_one_and_nothing_comes_first() -> None:
    fairness = np.array([0.0, 0.01, 0.5, 1.0, 2.0, 100.0])
    classes = fairness_class(fairness, 5).tolist()
    assert classes[0] == 0
    assert classes == sorted(classes)
    assert classes[-1] == 5
    assert fairness_class(np.array([1.0]), 5).tolist() == [3]


def test_the_tenant_that_used_least_of_its_share_is_served_first() -> None:
    rows = [Row(requested=2, tenant=name, width=width, plan=((900.0, 2),) if width else ()) for name, width in
            (("rich", 2), ("poor", 2), ("rich", 0), ("poor", 0))]  # fmt: skip
    window = TenantFlows(np.array([9000.0, 1000.0]), *np.full((3, 2), 5000.0))
    decision = Astraea().allocate(whole_view(*rows, capacity=6, now=500.0, window=window).of_kind(0))
    assert decision.widths.tolist() == [2, 2, 0, 2]


def test_a_tenant_far_below_its_share_now_goes_before_everybody() -> None:
    rows = [Row(requested=2, tenant="before"), Row(requested=2, tenant="now", width=2, plan=((900.0, 2),)),
            Row(requested=2, tenant="now")]  # fmt: skip
    window = TenantFlows(np.array([9000.0, 10.0]), *np.full((3, 2), 5000.0))
    assert Astraea().allocate(whole_view(*rows, now=500.0, window=window).of_kind(0)).widths.tolist() == [2, 2, 0]


@pytest.mark.parametrize(
    ("order", "first"),
    [("fairness", 0), ("class-fairness", 0), ("fifo", 1), ("2das", 0), ("smallest", 2), ("srtf", 2)],
)
def test_a_tenant_spends_what_it_is_offered_on_its_jobs_in_order(order: str, first: int) -> None:
    rows = [
        Row(requested=4, submitted=5.0, deserved=100.0, work=900.0),
        Row(requested=4, submitted=1.0, deserved=100.0, attained=400.0, executed=100.0, work=900.0),
        Row(requested=3, submitted=9.0, deserved=100.0, attained=200.0, executed=50.0, work=30.0),
    ]
    widths = Astraea(order=order).allocate(view(*rows, now=100.0)).widths.tolist()  # type: ignore[arg-type]
    assert [row for row, width in enumerate(widths) if width] == [first]


def test_a_lease_protects_and_its_end_puts_the_devices_up_again() -> None:
    machine = scheduler("1x1", "astraea:lease_s=600,order=fairness")
    machine.handle(JobSubmitted(0.0, job("a", 1e4, requested=1)), JobSubmitted(0.0, job("b", 1e4, requested=1)))
    holders = []
    for lease in range(4):
        holders.append(next(name for name in "ab" if machine.devices_of(name)))
        machine.handle(Tick(600.0 * lease + 300.0))
        assert machine.devices_of(holders[-1])
        machine.handle(Tick(600.0 * (lease + 1)))
    assert {*holders[:2]} == {*holders[2:]} == {"a", "b"}


def test_who_starves_goes_first() -> None:
    starved = Row(requested=4, submitted=0.0, attained=900.0, executed=10.0, deserved=1.0, stint_since=0.0)
    fresh = Row(requested=4, submitted=50.0, stint_since=50.0, deserved=100.0)
    assert Astraea(order="fairness", starving_s=90.0).allocate(view(starved, fresh, now=100.0)).widths.tolist() == [
        4,
        0,
    ]
    assert Astraea(order="fairness", starving_s=900.0).allocate(view(starved, fresh, now=100.0)).widths.tolist() == [
        0,
        4,
    ]


def test_a_new_job_may_take_the_devices_of_one_that_got_them_a_moment_ago() -> None:
    young = Row(requested=4, width=4, executed=400.0, attained=1600.0, deserved=10.0, plan=((950.0, 4),))
    new = Row(requested=4, submitted=99.0, deserved=1.0)
    assert Astraea().allocate(view(young, new, now=100.0)).widths.tolist() == [0, 4]
    assert Astraea(delay_s=0.0).allocate(view(young, new, now=100.0)).widths.tolist() == [4, 0]


def test_nobody_overtakes_the_first_that_does_not_fit_unless_that_is_allowed() -> None:
    rows = [
        Row(requested=2, width=2, plan=((900.0, 2),), executed=900.0),
        Row(requested=4, submitted=1.0, executed=1.0),
        Row(requested=1, submitted=2.0, executed=1.0),
    ]
    assert Astraea(order="fifo").allocate(view(*rows, now=500.0)).widths.tolist() == [2, 0, 0]
    assert Astraea(order="fifo", blocking=False).allocate(view(*rows, now=500.0)).widths.tolist() == [2, 0, 1]


def test_nobody_is_woken_for_leases_that_nobody_waits_for() -> None:
    alone, waits = Row(requested=4, width=4, plan=((900.0, 4),)), Row(requested=4, submitted=50.0, stint_since=50.0)
    assert Astraea(delay_s=0.0).allocate(view(alone, now=100.0)).wake_at == float("inf")
    assert Astraea(delay_s=0.0).allocate(view(alone, waits, now=100.0)).wake_at == 900.0


def test_a_lease_that_ran_out_while_nobody_waited_was_renewed() -> None:
    alone = Row(requested=4, width=4, executed=1000.0, attained=4000.0, deserved=1.0, plan=((900.0, 4),))
    late = Row(requested=4, submitted=2000.0, stint_since=2000.0)
    decision = Astraea(delay_s=0.0).allocate(view(alone, late, now=2000.0))
    assert (decision.widths.tolist(), decision.wake_at) == ([4, 0], pytest.approx(2700.0))
    early = Row(requested=4, submitted=800.0, stint_since=800.0)
    assert Astraea(delay_s=0.0).allocate(view(alone, early, now=900.0)).widths.tolist() == [0, 4]
