"""Promises, then tenants, then completion times; with one goal alone as good as the policy for that goal."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock.core import Deadline, Job, JobSubmitted, Verdict
from penstock.policies import policy_named
from penstock.policies.fair_order import FairOrder
from penstock.policies.queue_head import Queue
from penstock.scheduler.fairness import TenantFlows
from tests.policies.views import Row, whole_view
from tests.scheduler.build import job, scheduler
from tests.simulate.build import by_name, run

_RICH_AND_POOR = TenantFlows(
    np.array([9000.0, 1000.0]), np.array([5000.0, 5000.0]), np.array([5000.0, 5000.0]), np.array([0.0, 5000.0])
)  # fmt: skip
_EVEN = TenantFlows(*np.full((4, 2), 5000.0))


def _jobs(seed: int, *, tenants: str = "x", deadlines: float = 0.0, every_s: float = 15.0) -> list[Job]:
    rng, at, jobs = random.Random(seed), 0.0, list[Job]()
    for number in range(60):
        at += rng.expovariate(1.0 / every_s)
        width, work = rng.choice((1, 2, 4)), rng.choice((20.0, 60.0, 300.0))
        goal = {"goal": Deadline(at + work / width * rng.uniform(1.0, 4.0))} if rng.random() < deadlines else {}
        wanted = {"requested": width, "tenant": rng.choice(tenants), **goal}
        jobs.append(job(f"{number}", work, submitted_at=at, **wanted))
    return jobs


def test_with_one_tenant_and_deadlines_it_is_the_policy_for_deadlines() -> None:
    jobs = _jobs(1, deadlines=0.7)
    ours, theirs = (by_name(run(jobs, "2x4", policy, 1.0)) for policy in ("unified", "deadline"))
    assert {name: each.finished_at for name, each in ours.items()} == pytest.approx(
        {name: each.finished_at for name, each in theirs.items()}, nan_ok=True
    )


def test_without_deadlines_it_is_nearly_as_soon_done_as_the_shortest_device_time_first() -> None:
    """What is missing is the price of a bound on waiting."""
    jobs = [replace(each, at_least=each.requested, at_most=each.requested) for each in _jobs(2)]
    ours, theirs = (run(jobs, "2x4", policy, 1.0).summary for policy in ("unified", "srtf:order=device-time"))
    assert ours.jct_mean_s <= theirs.jct_mean_s * 1.05


def test_a_tenant_that_is_behind_goes_first_whatever_its_jobs_cost() -> None:
    rows = [Row(tenant="rich", work=10.0, at_most=4, at_least=4), Row(tenant="poor", work=90.0, at_most=4, at_least=4)]
    for policy in ("unified", "fair"):
        decided = policy_named(policy).allocate(whole_view(*rows, now=500.0, window=_RICH_AND_POOR))
        assert decided.widths.tolist() == [0, 4]
    assert policy_named("deadline").allocate(whole_view(*rows, now=500.0)).widths.tolist() == [4, 0]


def test_a_lease_protects_a_running_job_until_it_ends() -> None:
    """Every suspension doubles it; against a cheaper job of a tenant that is not behind."""
    for suspensions, lease_s in ((0, 600.0), (1, 1200.0), (2, 2400.0)):
        for now, widths in ((lease_s - 100.0, [4, 0]), (lease_s + 10.0, [0, 4]), (1.5 * lease_s, [4, 0])):
            dear = Row(tenant="x", work=90.0, at_least=3, width=4, suspensions=suspensions)
            cheap = Row(tenant="y", work=10.0, at_least=3, stint_since=now)
            view = whole_view(dear, cheap, now=now, window=_EVEN)
            assert policy_named("unified:lease_s=600").allocate(view).widths.tolist() == widths


def test_no_lease_of_a_tenant_far_ahead_of_its_share_holds_against_one_that_is_behind() -> None:
    rich = [Row(tenant="rich", work=work, at_least=2, at_most=2, width=2) for work in (10.0, 20.0)]
    poor = Row(tenant="poor", work=90.0, at_least=2, at_most=2, stint_since=100.0)
    view = whole_view(*rich, poor, now=100.0, window=_RICH_AND_POOR)
    assert policy_named("unified:lease_s=600").allocate(view).widths.tolist() == [2, 0, 2]
    somewhat = _RICH_AND_POOR._replace(used=np.array([7000.0, 3000.0]))
    for window in (_EVEN, somewhat):
        view = whole_view(*rich, poor, now=100.0, window=window)
        assert policy_named("unified:lease_s=600").allocate(view).widths.tolist() == [2, 2, 0]


def test_who_waited_for_very_long_goes_before_everybody() -> None:
    """A job that needs two of three devices waits for a 27th of ``starving_s``, whatever cheap ones keep coming."""
    dear, unified = Row(work=9e4, requested=2, at_least=2, at_most=2), policy_named("unified:starving_s=5000")
    for now, widths in ((180.0, [2, 0]), (190.0, [0, 2])):
        cheap = Row(work=10.0, requested=2, at_least=2, at_most=2, stint_since=now - 0.1)
        assert unified.allocate(whole_view(cheap, dear, now=now, capacity=3)).widths.tolist() == widths


def test_new_promises_leave_room_for_who_starves() -> None:
    """Jobs with deadlines keep coming and could take everything for ever; one without waits, and gets its turn."""
    streams = {name: _stream(name) for name in ("deadline", "unified:starving_s=50")}
    assert streams["unified:starving_s=50"] < 120.0 < streams["deadline"]


def _stream(policy: str) -> float:
    deadlines = [job(f"d{n}", 40.0, submitted_at=10.0 * n, goal=Deadline(10.0 * n + 21.0)) for n in range(60)]
    whole = job("whole", 2000.0, submitted_at=1.0, requested=4, at_least=4)
    jobs = sorted([*deadlines, whole], key=lambda each: each.submitted_at)
    result = by_name(run(jobs, "1x4", policy, 0.0))
    assert not [each for each in result.values() if each.promised and not each.finished_at <= each.deadline + 1e-3]
    return result["whole"].started_at


def test_promises_to_a_tenant_ahead_of_its_share_leave_room_for_jobs_without_a_deadline_of_one_that_is_behind() -> None:
    """Also while there is none; who had only jobs with deadlines needs no room."""
    used, deserved, entitled, best_effort = _RICH_AND_POOR
    for part, verdicts in ((1.0, ["promised", "deferred"]), (0.0, ["promised", "promised"])):
        window = TenantFlows(used, deserved, entitled, best_effort * part)
        asks = [Row(tenant="rich", work=work, due=1000.0, standing=0) for work in (400.0, 600.0)]
        view = whole_view(*asks, Row(tenant="poor", work=1.0, due=5000.0), now=500.0, capacity=4, window=window)
        answers = policy_named("unified").admit(view, np.array([0, 1]))
        assert [str(each.verdict) for each in answers if each is not None] == verdicts


@pytest.mark.parametrize("policy", ["unified", "fair"])
def test_a_tenant_that_floods_the_cluster_does_not_push_the_others_below_the_bound(policy: str) -> None:
    """Many short jobs of one would always go first by their length; the other two still get what they deserve."""
    rng = random.Random(5)
    flood = [job(f"f{n}", 200.0, submitted_at=20.0 * n, tenant="flood", at_most=1) for n in range(300)]
    others = [
        job(f"o{n}", 3000.0, submitted_at=rng.uniform(0, 3000), tenant=f"other{n % 2}", at_most=1) for n in range(12)
    ]
    jobs = sorted([*flood, *others], key=lambda each: each.submitted_at)
    fair, unfair = (run(jobs, "1x4", name, 1.0).summary for name in (policy, "deadline"))
    assert fair.tenant_fairness_least >= 0.9 > unfair.tenant_fairness_least


def test_fair_promises_nothing_and_keeps_what_was_promised() -> None:
    machine = scheduler("1x4", "unified")
    machine.handle(JobSubmitted(0.0, job("due", 100.0, goal=Deadline(30.0))))
    machine.reconfigure(0.0, policy_named("fair"))
    machine.handle(JobSubmitted(0.0, job("later", 10.0, goal=Deadline(20.0))))
    due, later = machine.quote_of("due"), machine.quote_of("later")
    assert due is not None
    assert due.verdict is Verdict.PROMISED
    assert later is not None
    assert later.verdict is Verdict.BEST_EFFORT


def test_why_says_how_the_tenant_was_treated() -> None:
    view = whole_view(Row(tenant="rich"), Row(tenant="poor"), now=500.0, window=_RICH_AND_POOR)
    rich, poor = (policy_named("unified").explain(view, row) for row in (0, 1))
    assert "used 0.20 of what it deserved in the last day, so its jobs go first" in poor
    assert "used 1.80 of what it deserved" in rich
    assert "deserved" not in policy_named("unified").explain(whole_view(Row(), Row(), now=500.0), 0), (
        "of one tenant alone"
    )


def test_the_worst_class_is_of_jobs_that_would_end_with_the_least_of_what_they_deserved() -> None:
    rows = [Row(work=100.0, deserved=1000.0), Row(work=100.0), Row(work=100.0, left=50.0, attained=50.0, deserved=10.0)]
    classes = FairOrder(0.9, 900.0, 1e4, 5).job_classes(whole_view(*rows), np.array([100.0, 100.0, 50.0]))
    assert classes.argmin() == 0
    assert classes[1] <= classes[2]


@pytest.mark.parametrize(
    ("ran", "more", "leased"),
    [
        (0.0, {}, True), (99.0, {}, True), (100.0, {}, False), (105.0, {}, False), (106.0, {}, True),
        (205.0, {}, False), (206.0, {}, True), (106.0, {"slot": 10.0}, False), (111.0, {"slot": 10.0}, True),
        (100.0, {"suspensions": 1}, True), (200.0, {"suspensions": 1}, False), (206.0, {"suspensions": 1}, True),
        (99.0, {"width": 0}, False), (99.0, {"waits": 1}, False), (99.0, {"waits": -1}, True),
    ],
)  # fmt: skip
def test_a_job_competes_for_its_devices_for_a_twentieth_of_a_lease_at_each_end(
    ran: float, more: dict[str, Any], leased: bool
) -> None:
    """A lease of 100 s; a job of another tenant waits, of the same priority or of one higher or lower."""
    held = Row(width=more.get("width", 1), stint_since=1000.0 - ran, suspensions=more.get("suspensions", 0))
    waits = Row(tenant="other", priority=more.get("waits", 0))
    view = whole_view(held, waits, now=1000.0, slot=more.get("slot", 0.0))
    assert FairOrder(0.9, 100.0, Queue(1e4)).leased(view).tolist() == [leased, False]


def test_no_lease_holds_where_all_jobs_are_of_one_tenant_unless_classes_count() -> None:
    view = whole_view(Row(width=1), Row(), now=1.0)
    for classes, leased in ((0, False), (5, True)):
        assert FairOrder(0.9, 100.0, Queue(1e4), classes).leased(view).tolist() == [leased, False]
