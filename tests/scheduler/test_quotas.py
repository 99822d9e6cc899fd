"""Quotas, limits and groups of tenants hold under every policy, and promises come before them."""

import random
from dataclasses import replace

import numpy as np
import pytest

from penstock.core import (
    CodecError,
    Curve,
    Deadline,
    EventError,
    JobError,
    JobFinished,
    JobSubmitted,
    Tenant,
    TenantChanged,
    TenantRemoved,
    Verdict,
    build,
)
from penstock.policies import POLICIES, policy_named
from penstock.scheduler import Scheduler
from tests.scheduler.build import job, scheduler

STATIC = ("yarn-cs", "dynamic-quota")
"""Policies that do not lend, or only a little."""


def _held(machine: Scheduler) -> dict[str, int]:
    table = machine._state.holdings.tenant_table(machine.now)
    return dict(zip(table.names, table.held.tolist(), strict=True))


def _set(machine: Scheduler, *tenants: Tenant, at: float = 0.0) -> None:
    machine.handle(*(TenantChanged(at, tenant) for tenant in tenants))


def _submit(machine: Scheduler, tenant: str, count: int, at: float = 0.0, **more: object) -> None:
    known = len(machine.active())
    wanted = {"requested": 1, "at_most": 1, "submitted_at": at, "tenant": tenant, **more}
    machine.handle(*(JobSubmitted(at, job(f"{tenant}-{known + each}", 1e6, **wanted)) for each in range(count)))
    machine.validate()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_what_was_lent_comes_back_when_its_owner_asks(policy: str) -> None:
    machine = scheduler("1x8", policy)
    _set(machine, Tenant(name="vision", quota=4), Tenant(name="nlp"))
    _submit(machine, "nlp", 8)
    assert _held(machine)["nlp"] == (4 if policy in STATIC else 8)
    _submit(machine, "vision", 6, at=5000.0)
    assert _held(machine)["vision"] >= 4
    assert sum(_held(machine).values()) == 8


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_nobody_holds_more_than_its_limit(policy: str) -> None:
    machine = scheduler("1x8", policy)
    _set(machine, Tenant(name="vision", limit=3))
    _submit(machine, "vision", 6)
    assert _held(machine) == {"vision": 3}
    _submit(machine, "nlp", 2, at=10.0)
    assert _held(machine) == {"vision": 3, "nlp": 2}


def test_an_elastic_job_grows_to_the_limit_of_its_tenant_and_no_further() -> None:
    machine = scheduler("1x8", "deadline")
    _set(machine, Tenant(name="vision", limit=4))
    _submit(machine, "vision", 1, at_most=8)
    assert _held(machine) == {"vision": 4}


def test_promised_devices_count_for_what_is_left_of_a_limit() -> None:
    machine = scheduler("1x8", "deadline")
    _set(machine, Tenant(name="vision", limit=4))
    _submit(machine, "vision", 1, at_least=2, requested=2, at_most=2, goal=Deadline(1e6))
    assert machine.quote_of("vision-0").verdict is Verdict.PROMISED  # type: ignore[union-attr]
    _submit(machine, "vision", 1, at_most=4)
    assert [len(machine.devices_of(name)) for name in machine.active()] == [2, 2]


def test_devices_that_are_not_lent_stay_idle() -> None:
    machine = scheduler("1x8", "fifo")
    _set(machine, Tenant(name="vision", quota=4, lending=False))
    _submit(machine, "nlp", 8)
    assert _held(machine) == {"vision": 0, "nlp": 4}
    _submit(machine, "vision", 1, at=1.0)
    assert _held(machine) == {"vision": 1, "nlp": 4}


def test_who_may_not_borrow_stays_within_its_quota() -> None:
    machine = scheduler("1x8", "srtf")
    _set(machine, Tenant(name="vision", quota=2, borrowing=False))
    _submit(machine, "vision", 8)
    assert _held(machine) == {"vision": 2}


def test_what_a_member_leaves_is_its_group_s_first() -> None:
    machine = scheduler("1x8", "fifo")
    _set(
        machine,
        Tenant(name="vision", group="research", quota=4),
        Tenant(name="nlp", group="research"),
        Tenant(name="sales"),
    )
    _submit(machine, "sales", 8)
    assert _held(machine)["sales"] == 8
    _submit(machine, "nlp", 8, at=1.0)
    assert _held(machine) == {"vision": 0, "research": 0, "nlp": 4, "sales": 4}
    _submit(machine, "vision", 3, at=2.0)
    assert _held(machine) == {"vision": 3, "research": 0, "nlp": 1, "sales": 4}


def test_the_limit_of_a_group_is_that_of_its_members_together() -> None:
    machine = scheduler("1x8", "fifo")
    _set(machine, Tenant(name="research", limit=5), Tenant(name="vision", group="research"))
    _set(machine, Tenant(name="nlp", group="research", quota=2))
    _submit(machine, "vision", 8)
    assert _held(machine)["vision"] == 5
    _submit(machine, "nlp", 4, at=1.0)
    assert _held(machine) == {"research": 0, "vision": 3, "nlp": 2}


def test_a_member_gets_its_quota_also_when_its_group_is_short_too() -> None:
    machine = scheduler("1x6", "fifo")
    _set(machine, Tenant(name="research", quota=3, limit=4), Tenant(name="vision", group="research", quota=2))
    _set(machine, Tenant(name="nlp", group="research", quota=1), Tenant(name="sales"))
    widths = {"nlp": 2, "sales": 3, "vision": 2}
    machine.handle(*(JobSubmitted(0.0, job(f"{name}-0", requested=n, tenant=name)) for name, n in widths.items()))
    machine.validate()
    assert _held(machine) == {"research": 0, "vision": 2, "nlp": 2, "sales": 0}


def test_a_group_s_share_is_divided_among_its_members() -> None:
    machine = scheduler("1x12", "fifo")
    _set(
        machine,
        Tenant(name="research", share=2.0),
        Tenant(name="vision", group="research", share=3.0),
        Tenant(name="nlp", group="research"),
        Tenant(name="sales"),
    )
    seen = machine._state.holdings.tenant_table(0.0)
    assert seen.entitled.tolist() == [0.0, 6.0, 2.0, 4.0]
    _submit(machine, "nlp", 12)
    _submit(machine, "sales", 12)
    seen = machine._state.holdings.tenant_table(0.0)
    assert seen.fair_devices(12.0).tolist() == [0.0, 0.0, 8.0, 4.0], "what vision leaves is nlp's first"


def test_a_promise_comes_before_a_quota_and_is_not_made_on_one() -> None:
    machine = scheduler("1x8", "deadline")
    _set(machine, Tenant(name="vision", quota=4))
    curve = Curve.from_table({1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0})
    wide = {"tenant": "nlp", "at_least": 8, "requested": 8, "goal": Deadline(1000.0)}
    machine.handle(JobSubmitted(0.0, replace(job("wide", 80.0, **wide), curve=curve)))
    assert machine.quote_of("wide").verdict is not Verdict.PROMISED  # type: ignore[union-attr]
    machine.handle(JobSubmitted(0.0, job("half", 4000.0, goal=Deadline(1100.0), tenant="nlp", at_most=8)))
    assert machine.quote_of("half").verdict is Verdict.PROMISED  # type: ignore[union-attr]
    _submit(machine, "vision", 8, at=1.0)
    assert _held(machine)["vision"] >= 4
    assert len(machine.devices_of("half")) == 4
    _set(machine, Tenant(name="vision", quota=8), at=2.0)
    assert len(machine.devices_of("half")) == 4, "a quota that grew later breaks no promise"
    machine.validate()


def test_priorities_are_bounded_by_what_a_tenant_may_use() -> None:
    machine = scheduler("1x1", "srtf")
    _set(machine, Tenant(name="vision", max_priority=0), Tenant(name="ops", priority=1))
    machine.handle(JobSubmitted(0.0, job("long", 100.0, requested=1, tenant="nlp", priority=1)))
    machine.handle(JobSubmitted(0.0, job("pushy", 1e3, requested=1, tenant="vision", priority=9)))
    assert machine.devices_of("long")
    machine.handle(JobSubmitted(1.0, job("urgent", 1e6, requested=1, tenant="ops", priority=-5, submitted_at=1.0)))
    assert machine.devices_of("urgent"), "a class of tenants comes before priorities of jobs"
    _set(machine, Tenant(name="ops"), at=2.0)
    assert machine.devices_of("long")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"share": 0.0}, "positive"),
        ({"quota": -1}, "zero or more"),
        ({"quota": 4, "limit": 2}, "within the limit"),
        ({"group": "x"}, "another tenant"),
        ({"group": "a b"}, "letters"),
        ({"borrowing": False}, "quota"),
        ({"priority": 2**40}, "from"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(JobError, match=said):
        Tenant(name="x", **settings)  # type: ignore[arg-type]


def test_groups_are_trees_without_jobs_of_their_own() -> None:
    machine = scheduler("1x4", "fifo")
    _set(machine, Tenant(name="vision", group="research"))
    with pytest.raises(EventError, match="inside it"):
        _set(machine, Tenant(name="research", group="vision"))
    with pytest.raises(EventError, match="is a group"):
        machine.handle(JobSubmitted(0.0, job("a", 1.0, tenant="research")))
    _submit(machine, "nlp", 1)
    with pytest.raises(EventError, match="jobs of its own"):
        _set(machine, Tenant(name="audio", group="nlp"))
    with pytest.raises(EventError, match="leave it first"):
        machine.handle(TenantRemoved(0.0, "research"))
    with pytest.raises(EventError, match="not over"):
        machine.handle(TenantRemoved(0.0, "nlp"))
    with pytest.raises(EventError, match="no tenant"):
        machine.handle(TenantRemoved(0.0, "nobody"))


def test_who_is_removed_counts_for_nothing_until_it_comes_back() -> None:
    machine = scheduler("1x4", "fifo")
    _set(machine, Tenant(name="a", share=3.0), Tenant(name="b"))
    machine.handle(TenantRemoved(0.0, "a"))
    assert machine._state.holdings.tenants.entitled(4).tolist() == [0.0, 4.0]
    restored = Scheduler.from_data(machine.to_data(), policy_named("fifo"))
    assert restored._state.holdings.tenants.entitled(4).tolist() == [0.0, 4.0]
    _submit(machine, "a", 1)
    assert machine._state.holdings.tenants.entitled(4).tolist() == [2.0, 2.0]


def test_a_state_with_groups_is_restored_in_the_same_places() -> None:
    machine = scheduler("1x4", "fifo")
    _set(machine, Tenant(name="a"), Tenant(name="b"), Tenant(name="research", quota=2))
    _set(machine, Tenant(name="a", group="research", priority=3))
    _submit(machine, "b", 3)
    _submit(machine, "a", 3, at=10.0)
    again = Scheduler.from_data(machine.to_data(), policy_named("fifo"))
    assert again.to_data() == machine.to_data()
    assert again._state.holdings.tenant_table(20.0).names == ("a", "b", "research")
    assert again._state.holdings.table.priority.tolist()[:6] == machine._state.holdings.table.priority.tolist()[:6]


def test_a_quota_in_an_old_log_is_a_limit() -> None:
    assert build(Tenant, {"name": "lab", "share": 2.0, "quota": 4}) == Tenant(name="lab", share=2.0, limit=4)
    with pytest.raises(CodecError):
        build(Tenant, {"name": "lab", "tribe": "x"})


@pytest.mark.parametrize("policy", ["fifo", "srtf", "astraea", "elasticflow", "deadline"])
def test_quotas_and_limits_hold_whatever_happens(policy: str) -> None:
    """After every event each tenant has what it could use of its quota, nobody is above a limit, and no device that
    somebody could use and may have is idle."""
    rng = random.Random(7)
    machine = scheduler("2x8", policy)
    settings = [
        Tenant(name="a", quota=4, limit=10),
        Tenant(name="b", quota=3, group="g"),
        Tenant(name="c", group="g"),
        Tenant(name="g", limit=12),
        Tenant(name="d"),
    ]
    _set(machine, *settings)
    now, number = 0.0, 0
    for _ in range(60):
        now += rng.choice((1.0, 50.0, 2000.0))
        running = machine.active()
        if running and rng.random() < 0.4:
            done = rng.choice([each for each in running if machine.devices_of(each)] or [""])
            if done:
                machine.handle(JobFinished(now, done))
        else:
            number += 1
            width = rng.choice((1, 1, 2))
            bounds = {"requested": width, "at_least": width, "at_most": width, "submitted_at": now}
            machine.handle(JobSubmitted(now, job(f"{number}", 1e9, tenant=rng.choice("abcd"), **bounds)))
        machine.validate()
        seen = machine._state.holdings.tenant_table(now)
        held, wanted = (dict(zip(seen.names, column.tolist(), strict=True)) for column in (seen.held, seen.wanted))
        assert held["a"] <= 10
        assert held["b"] + held["c"] <= 12
        assert held["a"] >= min(4, wanted["a"]) - 1, "a gang of two may leave one device of an odd quota"
        assert held["b"] >= min(3, wanted["b"]) - 1
        assert np.array(list(held.values())).sum() >= min(16, sum(wanted.values())) - 6


def test_the_documented_example() -> None:
    """As docs/tenants.md tells it."""
    machine = scheduler("2x8", "srtf")
    _set(
        machine,
        Tenant(name="research", share=2.0),
        Tenant(name="vision", share=3.0, quota=8, group="research"),
        Tenant(name="nlp", group="research"),
        Tenant(name="sales", limit=10),
    )
    entitled = dict(zip(machine.tenants().names, machine.tenants().entitled.round(2).tolist(), strict=True))
    assert entitled == {"research": 0.0, "vision": 8.0, "nlp": 2.67, "sales": 5.33}
    _submit(machine, "sales", 20)
    assert _held(machine) == {"research": 0, "vision": 0, "nlp": 0, "sales": 10}
    _submit(machine, "nlp", 16, at=3600.0)
    held = _held(machine)
    assert held["nlp"] >= 8
    assert held["nlp"] + held["sales"] == 16
    _submit(machine, "vision", 6, at=7200.0)
    assert _held(machine)["vision"] == 6
