"""Long-term fairness: device-time used over device-time deserved, exact whatever happens in between."""

import json
import math
import random

import pytest

from penstock.core import (
    Amendment,
    BestEffort,
    Deadline,
    EventError,
    JobAmended,
    JobCancelled,
    JobFinished,
    JobSubmitted,
    Tenant,
    TenantChanged,
    Tick,
)
from penstock.policies import TenantTable
from penstock.scheduler import Scheduler
from penstock.scheduler.fairness import BUCKET_S, BUCKETS
from tests.scheduler.build import job, scheduler


def _tenants(machine: Scheduler, now: float) -> TenantTable:
    return machine._state.holdings.tenant_table(now)


def test_a_tenant_deserves_its_share_while_it_could_use_that_much() -> None:
    machine = scheduler("1x4", "fifo")
    machine.handle(TenantChanged(0.0, Tenant(name="lab", share=3.0)), TenantChanged(0.0, Tenant(name="shop")))
    machine.handle(JobSubmitted(0.0, job("a", 1e6, tenant="lab", requested=2, at_most=2)))
    machine.handle(JobSubmitted(10.0, job("b", 1e6, tenant="shop", requested=2, at_most=2, submitted_at=10.0)))
    seen = _tenants(machine, 20.0)
    assert seen.entitled.tolist() == [3.0, 1.0]
    assert seen.used_lately.tolist() == [2 * 20.0, 2 * 10.0]
    assert seen.deserved_lately.tolist() == [2 * 20.0, 1 * 10.0]
    assert seen.entitled_lately.tolist() == [3 * 20.0, 1 * 20.0]
    assert seen.fairness.tolist() == [1.0, 2.0]


def test_what_jobs_without_a_deadline_deserve_is_counted_by_itself() -> None:
    """A state that was written down before it was counted has none of it."""
    machine = scheduler("1x4", "fifo")
    jobs = [job("a", 1e6, requested=2, at_most=2), job("b", 1e6, requested=1, at_most=1, goal=Deadline(9e6))]
    machine.handle(*(JobSubmitted(0.0, each) for each in jobs))
    assert _tenants(machine, 10.0).best_effort_lately.tolist() == [2 * 10.0]
    machine.handle(JobAmended(10.0, "b", Amendment(goal=BestEffort())))
    assert _tenants(machine, 20.0).best_effort_lately.tolist() == [2 * 20.0 + 1 * 10.0]
    machine.handle(JobCancelled(20.0, "a"))
    assert _tenants(machine, 30.0).best_effort_lately.tolist() == [2 * 20.0 + 1 * 20.0]
    account = machine._state.holdings.tenants.account
    written = account.to_data()
    account.restore(written | {"hours": [hour[:3] for hour in written["hours"]]})
    assert _tenants(machine, 30.0).best_effort_lately.tolist() == [1 * 10.0]


def test_a_job_deserves_an_equal_part_of_its_tenant_s_share() -> None:
    machine = scheduler("1x4", "fifo")
    machine.handle(
        JobSubmitted(0.0, job("a", 1e6, requested=4)), JobSubmitted(0.0, job("b", 1e6, requested=1, at_most=1))
    )
    machine.handle(Tick(30.0))
    holdings = machine._state.holdings
    assert holdings.deserved(slice(2), 40.0).tolist() == [2 * 40.0, 1 * 40.0]


def test_only_the_last_day_counts_for_tenants() -> None:
    machine = scheduler("1x4", "fifo")
    machine.handle(JobSubmitted(0.0, job("a", 1e9, requested=4)))
    late = (3 * BUCKETS + 0.5) * BUCKET_S
    machine.handle(Tick(late))
    assert _tenants(machine, late).used_lately.tolist() == [pytest.approx(4 * (BUCKETS - 0.5) * BUCKET_S)]
    machine.handle(JobFinished(late, "a"))
    half_a_day_later = late + BUCKETS / 2 * BUCKET_S
    seen = _tenants(machine, half_a_day_later)
    assert seen.used_lately.tolist() == [pytest.approx(4 * (BUCKETS / 2 - 0.5) * BUCKET_S)]
    assert _tenants(machine, 3 * late).used_lately.tolist() == [0.0]


def test_it_is_the_integral_of_what_was_held() -> None:
    """Against sums over small steps of what is held at each of them, over random arrivals and ends."""
    rng, machine = random.Random(3), scheduler("2x4", "srtf")
    sums, running, now = {"x": 0.0, "y": 0.0}, list[str](), 0.0
    for number in range(40):
        passed, before = rng.choice((0.0, 250.0, 700.0, 3000.0)), _tenants(machine, now)
        now += passed
        for position, name in enumerate(before.names):
            sums[name] += passed * float(before.held[position])
        if running and rng.random() < 0.4:
            machine.handle(JobCancelled(now, running.pop(rng.randrange(len(running)))))
        else:
            name = f"{number}"
            wanted = {"requested": rng.choice((1, 2, 4)), "tenant": rng.choice("xy"), "submitted_at": now}
            machine.handle(JobSubmitted(now, job(name, 1e9, **wanted)))
            running.append(name)
    assert 5 * BUCKET_S < now < (BUCKETS - 1) * BUCKET_S
    seen = _tenants(machine, now)
    assert dict(zip(seen.names, seen.used_lately.tolist(), strict=True)) == {
        name: pytest.approx(used) for name, used in sums.items()
    }


def test_an_event_that_does_not_fit_leaves_no_trace() -> None:
    machine = scheduler("1x4", "fifo")
    machine.handle(JobSubmitted(0.0, job("a", 1e6)))
    account = machine._state.holdings.tenants.account
    before = json.dumps(account.to_data())
    with pytest.raises(EventError):
        machine.handle(JobFinished(50.0, "nobody"))
    assert json.dumps(account.to_data()) == before


def test_nothing_happened_yet() -> None:
    machine = scheduler("1x4", "fifo")
    assert math.isnan(machine._state.holdings.tenants.account.as_of)
    assert _tenants(machine, 5.0).fairness.tolist() == []
