"""Leases that are known to end: jobs leave in time, promises count on that, and a breach names its cause."""

import pytest

from penstock.core import (
    Cluster,
    Deadline,
    InvariantError,
    Job,
    JobCancelled,
    JobFinished,
    JobSubmitted,
    Node,
    NodeChoice,
    NodeJoined,
    NodeLost,
    Tick,
    Verdict,
)
from penstock.policies import policy_named
from penstock.scheduler import JobState, Scheduler
from penstock.scheduler.kinds import VACATED_BEFORE_S
from penstock.simulate import simulate
from tests.scheduler.build import job, scheduler

ENDS = 60.0


def leased(policy: str = "deadline") -> Scheduler:
    """One node of two devices that stays, and one of two whose lease ends."""
    machine = scheduler("1x2", policy)
    machine.handle(NodeJoined(0.0, Node(name="leased", device_count=2), ENDS))
    return machine


def on_leased(machine: Scheduler, name: str) -> bool:
    return any(machine.cluster.nodes[machine.cluster.node_of(device)].name == "leased"
               for device in machine.devices_of(name))  # fmt: skip


@pytest.mark.parametrize("policy", ["deadline", "unified", "elasticflow", "fifo", "srtf"])
def test_jobs_leave_a_node_before_its_lease_ends_and_lose_nothing(policy: str) -> None:
    machine = leased(policy)
    for name in ("a", "b"):
        machine.handle(JobSubmitted(0.0, job(name, 400.0, requested=2, at_most=2, goal=Deadline(10_000.0))))
    assert machine.devices_held() == 4
    at = ENDS - VACATED_BEFORE_S
    assert machine.due_at <= at
    machine.handle(Tick(at))
    assert not on_leased(machine, "a")
    assert not on_leased(machine, "b")
    left = machine.remaining("a") + machine.remaining("b")
    machine.handle(NodeLost(ENDS, "leased"))
    assert machine.remaining("a") + machine.remaining("b") == pytest.approx(left - 2 * VACATED_BEFORE_S)
    machine.validate()


def test_a_job_that_ends_in_time_stays() -> None:
    machine = leased()
    machine.handle(JobSubmitted(0.0, job("keeps", 400.0, requested=2, at_most=2, goal=Deadline(400.0))))
    machine.handle(JobSubmitted(0.0, job("brief", 110.0, requested=2, at_least=2, goal=Deadline(58.0))))
    names = [name for name in ("keeps", "brief") if on_leased(machine, name)]
    machine.handle(Tick(ENDS - VACATED_BEFORE_S))
    assert [name for name in names if name == "brief"] == [name for name in ("brief",) if on_leased(machine, name)]
    machine.handle(JobFinished(55.0, "brief"), Tick(55.0))
    machine.validate()


def test_a_job_that_cannot_resume_is_promised_only_where_it_can_stay() -> None:
    """Both devices that stay are taken; on the others it would begin again at the end of the lease."""
    machine = leased()
    machine.handle(JobSubmitted(0.0, job("first", 400.0, requested=2, at_least=2, at_most=2, resumable=False,
                                         goal=Deadline(210.0))))  # fmt: skip
    assert not on_leased(machine, "first")
    machine.handle(JobSubmitted(0.0, job("second", 200.0, requested=2, at_least=2, at_most=2, resumable=False,
                                         goal=Deadline(290.0))))  # fmt: skip
    quote = machine.quote_of("second")
    assert quote is not None
    assert quote.verdict is not Verdict.PROMISED
    machine.handle(JobCancelled(0.0, "second"))
    machine.handle(JobSubmitted(0.0, job("brief", 40.0, requested=2, at_least=2, at_most=2, resumable=False,
                                         goal=Deadline(45.0))))  # fmt: skip
    assert (short := machine.quote_of("brief")) is not None
    assert short.verdict is Verdict.PROMISED


def test_a_confined_job_is_promised_only_until_the_lease_of_its_node_ends() -> None:
    machine = leased()
    there = NodeChoice(only=("leased",))
    for name, work, verdict in (("long", 200.0, Verdict.DEFERRED), ("short", 40.0, Verdict.PROMISED)):
        machine.handle(JobSubmitted(0.0, job(name, work, nodes=there, goal=Deadline(900.0))))
        assert (quote := machine.quote_of(name)) is not None
        assert quote.verdict is verdict, name


def one_late() -> list[Job]:
    return [job("hit", 200.0, requested=2, goal=Deadline(110.0), resumable=False)]


def test_a_lost_node_is_the_cause_of_a_broken_promise_and_counts() -> None:
    faults = [NodeLost(10.0, "node-1")]
    result = simulate(one_late(), Cluster.parse("2x1"), policy_named("deadline"), slot=0.0, faults=faults)
    assert (result.summary.promises, result.summary.broken) == (1, 1)
    assert dict(result.summary.broken_causes) == {"node-1 was lost": 1}
    assert [each.breach for each in result.outcomes] == ["node-1 was lost"]


def test_an_end_of_a_lease_that_was_known_excuses_nothing() -> None:
    """Whatever stopped the job there is our fault, and is named."""
    machine = leased()
    machine.handle(JobSubmitted(0.0, job("a", 400.0, requested=4, goal=Deadline(160.0))))
    assert machine.state_of("a") is JobState.RUNNING
    machine.handle(NodeLost(ENDS, "leased"))
    assert machine.breach("a", 150.0) == ""
    assert machine.breach("a", 170.0) == "the lease of leased ended"
    machine.handle(JobFinished(170.0, "a"))
    assert machine.why("a").entries[-1].text == "finished, 10s late: its promise is broken: the lease of leased ended"
    with pytest.raises(InvariantError, match="without an outside cause: a by 10s"):
        machine.validate()


def test_a_node_that_leaves_before_its_lease_ends_excuses_the_promise_and_is_named() -> None:
    machine = leased()
    machine.handle(JobSubmitted(0.0, job("a", 400.0, requested=4, goal=Deadline(160.0))))
    machine.handle(NodeLost(20.0, "leased"))
    assert machine.breach("a", 170.0) == "leased was lost"
    machine.handle(JobFinished(170.0, "a"))
    machine.validate()
