"""Events that do not fit: refused with a reason, and everything stays as it was."""

import math

import pytest

from penstock.core import (
    Amendment,
    Curve,
    CurveChanged,
    Event,
    EventError,
    Grant,
    JobAmended,
    JobCancelled,
    JobFinished,
    JobSubmitted,
    NodeLost,
    Progress,
    Start,
    Stop,
    Tick,
    WorkerFailed,
)
from penstock.scheduler import Scheduler
from tests.scheduler.build import job, kinds, scheduler


@pytest.fixture
def machine() -> Scheduler:
    """At time 20: "done" is over, "cancelled" too, "runs" holds all devices and "waits" waits."""
    machine = scheduler("1x2")
    machine.handle(JobSubmitted(0.0, job("done", requested=2)))
    machine.handle(JobFinished(5.0, "done"))
    machine.handle(JobSubmitted(10.0, job("runs", requested=2)), JobSubmitted(10.0, job("waits", requested=2)))
    machine.handle(JobSubmitted(20.0, job("cancelled")), JobCancelled(20.0, "cancelled"))
    return machine


def picture(machine: Scheduler) -> tuple[object, ...]:
    """Everything one can see from outside."""
    active = machine.active()
    return (
        machine.now, active, machine.next_finish_at(), machine.devices_held(), machine.fragmentation(),
        [(machine.state_of(name), machine.devices_of(name), machine.remaining(name)) for name in active],
        [list(machine.why(name).entries) for name in active], machine.cluster,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (JobSubmitted(30.0, job("runs")), "a job 'runs' is already known; ids are used once"),
        (JobSubmitted(30.0, job("done")), "a job 'done' is already known"),
        (JobCancelled(30.0, "nobody"), "no job 'nobody' is known here"),
        (JobFinished(30.0, "nobody"), "no job 'nobody' is known here"),
        (Progress(30.0, "nobody", 1.0), "no job 'nobody' is known here"),
        (CurveChanged(30.0, "nobody", Curve.from_table({1: 1.0})), "no job 'nobody' is known here"),
        (WorkerFailed(30.0, "nobody"), "no job 'nobody' is known here"),
        (JobAmended(30.0, "runs", Amendment(at_least=3, at_most=2)), "job 'runs' cannot be changed so: "),
        (JobAmended(30.0, "waits", Amendment(at_least=0)), "job 'waits' cannot be changed so: "),
        (JobFinished(30.0, "done"), "job 'done' is already finished"),
        (JobCancelled(30.0, "cancelled"), "job 'cancelled' is already cancelled"),
        (Progress(30.0, "done", 1.0), "job 'done' is already finished"),
        (JobFinished(30.0, "waits"), "job 'waits' cannot finish: it holds no devices"),
        (WorkerFailed(30.0, "waits"), "job 'waits' holds no devices, so no worker of it can fail"),
        (NodeLost(30.0, "nowhere"), "no node 'nowhere' in this cluster"),
        (Tick(19.0), r"happened before 20.0; events must come in order of time"),
        (Tick(math.nan), "events must come in order of time"),
        (JobFinished(19.9, "runs"), "happened before 20.0"),
    ],
)
def test_the_event_is_refused_and_nothing_changes(machine: Scheduler, event: Event, message: str) -> None:
    before = picture(machine)
    with pytest.raises(EventError, match=message):
        machine.handle(event)
    assert picture(machine) == before
    machine.validate()


def test_asking_about_an_unknown_job_is_refused(machine: Scheduler) -> None:
    for ask in (machine.state_of, machine.quote_of, machine.devices_of, machine.remaining, machine.why):
        with pytest.raises(EventError, match="no job 'nobody' is known here"):
            ask("nobody")


def test_what_earlier_events_of_a_failing_call_gave_rise_to_comes_with_the_next(machine: Scheduler) -> None:
    with pytest.raises(EventError):
        machine.handle(JobCancelled(30.0, "runs"), JobFinished(31.0, "nobody"), JobCancelled(32.0, "waits"))
    assert machine.now == 30.0
    assert machine.active() == ["waits"]
    machine.validate()
    assert machine.handle(Tick(33.0)) == [Stop("runs", "cancelled"), Start(Grant("waits", "gpu", (0, 1), nodes=1))]


def test_a_failing_call_may_be_repeated_without_the_event_that_failed() -> None:
    machine = scheduler()
    with pytest.raises(EventError):
        machine.handle(JobSubmitted(0.0, job("a")), JobSubmitted(1.0, job("a")))
    assert kinds(machine.handle()) == ["Admit", "Start"]
    machine.validate()


def test_events_at_the_same_time_are_fine(machine: Scheduler) -> None:
    assert machine.handle(Tick(20.0)) == []
