"""Fixed and dynamic quotas of tenants."""

from typing import Any

import pytest

from penstock.core import Job, JobFinished, JobSubmitted
from penstock.scheduler import Scheduler
from tests.scheduler.build import job, scheduler


def of(tenant: str, number: int, width: int = 1, **changes: Any) -> Job:
    return job(f"{tenant}{number}", 1e6, tenant=tenant, requested=width, **changes)


def submit(machine: Scheduler, *jobs: Job, at: float = 0.0) -> dict[str, int]:
    """Who holds how many devices after these have come."""
    machine.handle(*(JobSubmitted(at, each) for each in jobs))
    machine.validate()
    return {name: len(machine.devices_of(name)) for name in machine.active() if machine.devices_of(name)}


@pytest.mark.parametrize("policy", ["yarn-cs", "dynamic-quota"])
def test_everybody_has_its_share_of_the_devices(policy: str) -> None:
    held = submit(scheduler("2x4", policy), *(of("a", i) for i in range(9)), *(of("b", i) for i in range(9)))
    assert sum(held.values()) == 8
    assert sum(width for name, width in held.items() if name.startswith("a")) == 4


def test_fixed_quotas_leave_devices_of_others_idle() -> None:
    held = submit(scheduler("2x4", "yarn-cs"), of("b", 0), *(of("a", i) for i in range(9)))
    assert held == {"b0": 1, "a0": 1, "a1": 1, "a2": 1, "a3": 1}


def test_under_a_fixed_quota_nobody_overtakes_in_its_own_queue() -> None:
    held = submit(scheduler("2x4", "yarn-cs"), of("b", 0), of("a", 0, 3), of("a", 1, 2), of("a", 2))
    assert held == {"b0": 1, "a0": 3}, "a1 waits for two devices of the quota of four, and a2 behind it"


def test_a_job_wider_than_the_quota_starts_when_its_tenant_holds_nothing() -> None:
    machine = scheduler("2x4", "yarn-cs")
    assert submit(machine, of("b", 0), of("a", 0), of("a", 1, 6)) == {"b0": 1, "a0": 1}
    machine.handle(JobFinished(10.0, "a0"))
    assert len(machine.devices_of("a1")) == 6


def test_dynamic_quotas_lend_up_to_the_stretch() -> None:
    crowd = [of("b", 0), *(of("a", i) for i in range(9))]
    assert sum(submit(scheduler("2x5", "dynamic-quota"), *crowd).values()) == 1 + 6
    assert sum(submit(scheduler("2x5", "dynamic-quota:stretch=2"), *crowd).values()) == 10


def test_what_was_lent_is_taken_back_from_who_got_it_last() -> None:
    machine = scheduler("2x2", "dynamic-quota:stretch=2")
    submit(machine, of("b", 0), of("a", 0))
    assert submit(machine, of("a", 1, submitted_at=1.0), at=1.0) == {"b0": 1, "a0": 1, "a1": 1}
    assert submit(machine, of("a", 2, submitted_at=2.0), at=2.0) == {"b0": 1, "a0": 1, "a1": 1, "a2": 1}
    assert submit(machine, of("b", 1, submitted_at=3.0), at=3.0) == {"b0": 1, "a0": 1, "a1": 1, "b1": 1}
    assert submit(machine, of("b", 2, submitted_at=4.0), at=4.0) == {"b0": 1, "a0": 1, "a1": 1, "b1": 1}
    machine.handle(JobFinished(5.0, "b1"))
    assert len(machine.devices_of("b2")) == 1, "within its quota b goes before a, which borrows"


@pytest.mark.parametrize("policy", ["yarn-cs", "dynamic-quota"])
def test_devices_of_jobs_that_cannot_resume_count_for_the_quota(policy: str) -> None:
    machine = scheduler("2x4", policy)
    submit(machine, of("b", 0), *(of("a", i, resumable=False) for i in range(4)))
    held = submit(machine, *(of("a", i, submitted_at=1.0) for i in range(4, 8)), at=1.0)
    assert sum(width for name, width in held.items() if name.startswith("a")) == 4


def test_quotas_hold_over_all_kinds_of_devices_together() -> None:
    machine = scheduler("1x4xA+1x4xB", "yarn-cs")
    submit(machine, of("b", 0, kinds=("A",)), *(of("a", i, kinds=("A",)) for i in range(3)))
    held = submit(machine, *(of("a", i, kinds=("B",), submitted_at=1.0) for i in range(3, 9)), at=1.0)
    assert held == {"b0": 1, "a0": 1, "a1": 1, "a2": 1, "a3": 1}, "four of the eight devices are its share"
