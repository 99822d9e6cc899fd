"""Another policy, slot or overhead: jobs and devices stay, promises are kept or withdrawn in plain words."""

import numpy as np
import pytest

from penstock.core import Deadline, EventError, JobFinished, JobSubmitted, Overhead, Tick, Verdict, Withdraw
from penstock.policies import POLICIES, policy_named
from penstock.scheduler import ExpectedCosts, JobState, Scheduler
from tests.scheduler.build import job, scheduler

KEEPERS = sorted(name for name, policy in POLICIES.items() if policy.keeps_promises)
PROMISERS = [name for name in KEEPERS if name != "fair"]
PAIRS = [
    (before, after) for before in PROMISERS for after in KEEPERS if (before, after) != ("edf-admission", "chronus")
]
"""Not what counted on more devices than a job asks for, under a policy that gives none more."""
SHORT_LEASES = {"chronus": "chronus:lease_s=2,safety=1"}
"""A policy whose leases are longer than the jobs here last promises nothing to them."""
OTHERS = sorted(name for name, policy in POLICIES.items() if not policy.keeps_promises)


def promising(policy: str) -> Scheduler:
    """Two promised jobs that fill the cluster until their deadlines, and one that nobody promised anything."""
    machine = scheduler("1x4", SHORT_LEASES.get(policy, policy))
    machine.handle(
        JobSubmitted(0.0, job("a", 300.0, goal=Deadline(160.0), requested=2)),
        JobSubmitted(0.0, job("b", 300.0, goal=Deadline(160.0), requested=2)),
    )
    machine.handle(JobSubmitted(1.0, job("c", submitted_at=1.0)))
    return machine


def run_out(machine: Scheduler) -> dict[str, float]:
    """Let everybody end; when each did."""
    ends: dict[str, float] = {}
    for _ in range(400):
        at = min(machine.next_finish_at(), machine.due_at)
        if at == float("inf"):
            return ends
        done = machine.finishing_by(at)
        ends |= {name: when for when, name in done}
        machine.handle(*(JobFinished(when, name) for when, name in done), Tick(max(at, machine.now)))
        machine.validate()
    raise AssertionError("it does not end")


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_policies_that_keep_promises_keep_those_of_others(before: str, after: str) -> None:
    machine = promising(before)
    machine.handle(Tick(20.0))
    machine.reconfigure(20.0, policy_named(SHORT_LEASES.get(after, after)))
    told = machine.handle()
    assert not any(isinstance(each, Withdraw) for each in told)
    for name in ("a", "b"):
        assert machine.quote_of(name).verdict is Verdict.PROMISED  # type: ignore[union-attr]
    ends = run_out(machine)
    assert max(ends["a"], ends["b"]) <= 160.0 + 1e-6


@pytest.mark.parametrize("after", OTHERS)
def test_a_policy_that_promises_nothing_withdraws_promises_in_plain_words(after: str) -> None:
    machine = promising("deadline")
    held = machine.devices_of("a")
    machine.reconfigure(20.0, policy_named(after))
    told = machine.collect()
    withdrawn = {each.quote.job_id: each.quote for each in told if isinstance(each, Withdraw)}
    assert set(withdrawn) == {"a", "b"}
    reason = f"its promise is withdrawn: the platform now runs under {after}, which promises nothing"
    assert withdrawn["a"].reason == machine.why("a").entries[-1].text == reason
    assert machine.quote_of("a").verdict is Verdict.BEST_EFFORT  # type: ignore[union-attr]
    assert machine.job("a").hard, "no deadline is softened"
    assert machine.devices_of("a") == held
    assert machine.policy.name == after
    assert set(run_out(machine)) == {"a", "b", "c"}


def test_jobs_and_devices_stay() -> None:
    machine = promising("deadline")
    before = {name: (machine.state_of(name), machine.devices_of(name)) for name in machine.active()}
    machine.reconfigure(20.0, policy_named("elasticflow"), slot=30.0, costs=ExpectedCosts(Overhead(change_s=1.0)))
    assert {name: (machine.state_of(name), machine.devices_of(name)) for name in machine.active()} == before
    assert machine.slot == 30.0
    assert machine.state_of("a") is JobState.RUNNING


@pytest.mark.parametrize(("after", "kept"), [("elasticflow", True), ("fifo", False)])
def test_plans_outlast_the_rules_that_made_them_only_where_promises_do(after: str, kept: bool) -> None:
    machine = promising("deadline")
    table = machine._state.holdings.table
    table.plan_at[:] = 5.0
    machine.reconfigure(20.0, policy_named(after))
    promised = [machine.quote_of(name).verdict is Verdict.PROMISED for name in (each.id for each in table.jobs)]  # type: ignore[union-attr]
    assert [bool(np.isfinite(table.plan_at[row]).all()) for row in range(len(promised))] == promised
    assert any(promised) is kept


def test_rules_do_not_change_in_the_past() -> None:
    machine = promising("deadline")
    machine.handle(Tick(20.0))
    with pytest.raises(EventError, match="happened before"):
        machine.reconfigure(19.0, policy_named("fifo"))
    assert machine.policy.name == "deadline"
