"""Answers that promise nothing name the rule that holds."""

import numpy as np
import pytest

from penstock.core import Deadline, JobSubmitted, Overhead, Quote, Tenant, TenantChanged
from penstock.policies import COST_CLASSES, ArrivalStatistics, policy_named
from penstock.scheduler import Scheduler
from tests.policies.views import Row, whole_view
from tests.scheduler.build import job, scheduler


def _answer(machine: Scheduler, name: str, iterations: float, **changes: object) -> Quote:
    machine.handle(JobSubmitted(0.0, job(name, iterations, **changes)))
    quote = machine.quote_of(name)
    assert quote is not None
    return quote


@pytest.mark.parametrize("policy", ["unified", "deadline", "elasticflow"])
def test_a_quota_that_leaves_nothing_to_promise_is_named(policy: str) -> None:
    machine = scheduler("1x4", policy)
    machine.handle(TenantChanged(0.0, Tenant(name="vision", quota=4)))
    quote = _answer(machine, "a", 100.0, goal=Deadline(1200.0), requested=1, at_most=1)
    assert quote.verdict in ("deferred", "refused")
    assert "of the 4 devices only 0 can be promised to it" in quote.reason
    assert "quotas of other tenants (vision 4) may be called in" in quote.reason
    assert "promises already made" not in quote.reason


def test_a_quota_beside_promises_is_named_with_them() -> None:
    machine = scheduler("1x4", "deadline:at_once=9")
    machine.handle(TenantChanged(0.0, Tenant(name="vision", quota=2)))
    assert _answer(machine, "a", 1000.0, goal=Deadline(600.0)).verdict == "promised"
    quote = _answer(machine, "b", 1000.0, goal=Deadline(700.0))
    assert "only 2 can be promised" in quote.reason
    assert "on those finishing it in time would break promises already made" in quote.reason


def test_a_limit_of_the_tenant_is_named() -> None:
    machine = scheduler("1x4", "deadline:at_once=9")
    machine.handle(TenantChanged(0.0, Tenant(name="default", limit=1)))
    quote = _answer(machine, "a", 1000.0, goal=Deadline(600.0))
    assert "default may hold at most 1" in quote.reason
    assert "promises already made" not in quote.reason


def test_the_share_that_is_promised_at_once_is_named() -> None:
    busy = ArrivalStatistics(np.ones(COST_CLASSES))
    view = whole_view(Row(work=1000.0, due=5000.0, standing=0), arrivals=busy)
    (quote,) = policy_named("unified").admit(view, np.array([0]))
    assert quote is not None
    assert "more than 30% of the 4 devices that may be promised" in quote.reason
    assert "at_once=0.3" in quote.reason
    assert "than the devices can do" not in quote.reason


def test_a_job_that_takes_a_large_part_of_the_device_time_is_told_so() -> None:
    view = whole_view(Row(work=4 * 80_000.0, due=100_000.0, standing=0))
    (quote,) = policy_named("unified").admit(view, np.array([0]))
    assert quote is not None
    assert "large=0.5" in quote.reason


def test_without_any_promise_the_reserve_is_named() -> None:
    view = whole_view(Row(work=100.0, due=30.0, standing=0), overhead=Overhead(change_s=4.0, worst_s=10.0))
    (quote,) = policy_named("deadline").admit(view, np.array([0]))
    assert quote is not None
    assert "promises already made" not in quote.reason
    assert "without the reserve" in quote.reason
