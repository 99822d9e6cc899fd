"""A job that gives its devices back and goes on without: others get them at once, and it ends like any other."""

import pytest

from penstock.core import (
    Amendment,
    Costs,
    CostsChanged,
    Curve,
    CurveChanged,
    Deadline,
    DevicesReleased,
    Event,
    EventError,
    InvariantError,
    JobAmended,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobPaused,
    JobResumed,
    JobSubmitted,
    NodeLost,
    OutlookChanged,
    Progress,
    ResumableChanged,
    Stop,
    Suspend,
    Tick,
    WorkerFailed,
)
from penstock.policies import policy_named
from penstock.scheduler import JobState, Scheduler
from tests.scheduler.build import grants, job, scheduler


def released(policy: str = "fifo") -> Scheduler:
    """At time 10 "a" has given its four devices back, for which "b" waited."""
    machine = scheduler("1x4", policy)
    machine.handle(JobSubmitted(0.0, job("a", requested=4, at_least=4, at_most=4, goal=Deadline(40.0))))
    machine.handle(JobSubmitted(0.0, job("b", requested=4, at_least=4, at_most=4)))
    assert machine.devices_of("b") == ()
    told = machine.handle(DevicesReleased(10.0, "a"))
    assert grants(told) == {"b": (0, 1, 2, 3)}
    machine.validate()
    return machine


def test_its_devices_go_to_whoever_waits_and_nobody_stops_it() -> None:
    machine = released()
    assert machine.state_of("a") is JobState.FINISHING
    assert machine.devices_of("a") == ()
    assert machine.is_active("a")
    assert machine.active() == ["b"]
    assert machine.paused() == []
    assert machine.remaining("a", 500.0) == 0.0
    assert machine.rate_of("a") == 0.0
    assert machine.why("a").entries[-1].text == "gave its 4 devices back: what is left of it needs none"
    assert machine.why("a").now == "finishing: it has given its devices back, and what is left of it needs none"


def test_device_time_ends_with_the_release() -> None:
    machine = released()
    machine.handle(Tick(30.0), JobFinished(35.0, "b"))
    table = machine.tenants(60.0)
    assert table.attained.sum() == pytest.approx(4 * 10.0 + 4 * 25.0)


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (JobFinished(30.0, "a"), JobState.FINISHED),
        (JobFailed(30.0, "a", "its metric step broke"), JobState.FAILED),
        (JobCancelled(30.0, "a"), JobState.CANCELLED),
    ],
)
def test_it_ends_like_any_other(event: Event, state: JobState) -> None:
    machine = released("deadline")
    told = machine.handle(event)
    assert machine.state_of("a") is state
    assert (Stop("a", state.value) in told) == (state is not JobState.FINISHED)
    machine.validate()
    assert machine.forget("a").entries


def test_a_promise_is_not_broken_by_what_no_policy_decides() -> None:
    machine = scheduler("1x4", "deadline")
    machine.handle(JobSubmitted(0.0, job("a", goal=Deadline(100.0))))
    early = Scheduler.from_data(machine.to_data(), machine.policy)
    early._state.live("a").excuse = "a node was lost"
    for each, excuse in ((machine, "it had given its devices back"), (early, "a node was lost")):
        each.handle(DevicesReleased(25.0, "a"))
        each.handle(JobFinished(500.0, "a"))
        each.validate()
        told = f"finished, 6m 40s late: its promise is broken: {excuse}"
        assert each.why("a").entries[-1].text == told, "the first reason counts"


def test_what_is_told_of_it_meanwhile_changes_no_table() -> None:
    machine = released()
    slower = Curve.from_table({4: 2.0})
    machine.handle(Progress(11.0, "a", 3.0))
    machine.handle(OutlookChanged(11.0, "a", 3.0, 1.0, 0.5))
    machine.handle(CurveChanged(11.0, "a", slower), CostsChanged(11.0, "a", Costs()))
    machine.handle(ResumableChanged(11.0, "a", resumable=False))
    machine.handle(JobAmended(11.0, "a", Amendment(priority=7)))
    machine.handle(NodeLost(12.0, "node-0"))
    machine.validate()
    assert machine.job("a").curve == slower
    assert machine.job("a").priority == 7
    assert machine.state_of("a") is JobState.FINISHING


@pytest.mark.parametrize(
    "event",
    [DevicesReleased(11.0, "a"), JobPaused(11.0, "a"), JobResumed(11.0, "a"), WorkerFailed(11.0, "a")],
)
def test_it_cannot_give_back_more_nor_be_paused(event: Event) -> None:
    machine = released()
    before = machine.to_data()
    with pytest.raises(EventError):
        machine.handle(event)
    assert machine.to_data() == before


def test_only_a_job_that_has_run_can_release() -> None:
    machine = released()
    machine.handle(JobSubmitted(11.0, job("c")))
    for name in ("c", "nobody"):
        with pytest.raises(EventError):
            machine.handle(DevicesReleased(11.0, name))
    machine.handle(JobPaused(12.0, "b"))
    with pytest.raises(EventError, match="is paused"):
        machine.handle(DevicesReleased(12.0, "b"))
    machine.validate()


def test_one_that_had_just_lost_its_devices_needs_none_any_more() -> None:
    machine = scheduler("1x4")
    machine.handle(JobSubmitted(0.0, job("a")))
    assert machine.handle(NodeLost(5.0, "node-0")) == [Suspend("a")]
    machine.handle(DevicesReleased(6.0, "a"))
    assert machine.state_of("a") is JobState.FINISHING
    assert machine.why("a").entries[-1].text == "gave its devices back: what is left of it needs none"
    machine.validate()


def test_it_is_there_again_after_a_snapshot_and_in_a_twin() -> None:
    machine = released()
    again = Scheduler.from_data(machine.to_data(), policy_named("fifo"))
    assert again.to_data() == machine.to_data()
    for other in (again, machine.twin()):
        assert other.state_of("a") is JobState.FINISHING
        other.handle(JobFinished(30.0, "a"))
        other.validate()
    assert machine.state_of("a") is JobState.FINISHING


def test_a_row_of_a_job_that_wants_no_devices_is_a_contradiction() -> None:
    machine = released()
    record = machine._state.record("b")
    record.state = JobState.FINISHING
    with pytest.raises(InvariantError, match="is finishing with 4 devices"):
        machine.validate()
