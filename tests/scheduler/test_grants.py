"""Who starts, grows, shrinks, stops and goes on, and when: one event at a time, numbers by hand."""

import math

import pytest

from penstock.core import (
    Admit,
    Deadline,
    Grant,
    JobCancelled,
    JobFinished,
    JobSubmitted,
    Overhead,
    Quote,
    Resize,
    Resume,
    Start,
    Stop,
    Suspend,
    Tick,
    Verdict,
    Wake,
)
from penstock.scheduler import ExpectedCosts, JobState
from tests.scheduler.build import grants, job, kinds, scheduler


def test_a_job_is_admitted_and_started() -> None:
    machine = scheduler()
    reason = "fifo lets every job in and promises nothing"
    assert machine.handle(JobSubmitted(0.0, job("a", requested=2))) == [
        Admit(Quote(job_id="a", verdict=Verdict.BEST_EFFORT, reason=reason)),
        Start(Grant("a", "gpu", (0, 1), nodes=1)),
    ]
    assert machine.state_of("a") is JobState.RUNNING
    assert machine.next_finish_at() == 50.0
    machine.validate()


def test_a_job_that_does_not_fit_waits_and_starts_when_another_ends() -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a", requested=4)))
    assert kinds(machine.handle(JobSubmitted(5.0, job("b", requested=2, submitted_at=5.0)))) == ["Admit"]
    assert machine.state_of("b") is JobState.PENDING
    assert machine.handle(JobFinished(25.0, "a")) == [Start(Grant("b", "gpu", (0, 1), nodes=1))]
    assert (machine.state_of("a"), machine.next_finish_at()) == (JobState.FINISHED, 75.0)
    machine.validate()


def test_an_arrival_shrinks_and_an_end_grows_those_who_stay() -> None:
    machine = scheduler(policy="edf")
    machine.handle(JobSubmitted(0.0, job("a", 400.0, goal=Deadline(1000.0))))
    assert machine.devices_of("a") == (0, 1, 2, 3)

    urgent = job("b", goal=Deadline(500.0), at_most=2, submitted_at=10.0)
    said = machine.handle(JobSubmitted(10.0, urgent))
    assert kinds(said) == ["Admit", "Resize", "Start"]
    assert {name: len(devices) for name, devices in grants(said).items()} == {"a": 2, "b": 2}
    assert machine.remaining("a") == 400 - 10 * 4
    assert machine.next_finish_at() == 10 + 100 / 2

    assert machine.handle(JobFinished(60.0, "b")) == [Resize(Grant("a", "gpu", (0, 1, 2, 3), nodes=1))]
    assert machine.remaining("a") == 360 - 50 * 2
    assert machine.next_finish_at() == 60 + 260 / 4
    machine.validate()


def test_a_shorter_job_suspends_a_longer_one_which_then_goes_on() -> None:
    machine = scheduler(policy="srtf")
    machine.handle(JobSubmitted(0.0, job("long", 100.0, requested=4)))
    said = machine.handle(JobSubmitted(5.0, job("short", 4.0, requested=4, submitted_at=5.0)))
    assert said[1:] == [Suspend("long"), Start(Grant("short", "gpu", (0, 1, 2, 3), nodes=1))]
    assert (machine.state_of("long"), machine.remaining("long")) == (JobState.SUSPENDED, 80.0)
    assert machine.handle(JobFinished(6.0, "short")) == [Resume(Grant("long", "gpu", (0, 1, 2, 3), nodes=1))]
    assert machine.finishing_by(26.0) == [(26.0, "long")]
    machine.validate()


def test_decisions_are_a_slot_apart_and_events_in_between_wait_for_the_next() -> None:
    machine = scheduler(slot=60.0)
    assert grants(machine.handle(JobSubmitted(0.0, job("a", 30.0, requested=4)))) == {"a": (0, 1, 2, 3)}
    assert machine.handle(JobSubmitted(2.0, job("b", requested=2, submitted_at=2.0))) == [Wake(60.0)]
    assert machine.handle(JobSubmitted(5.0, job("c", requested=2, submitted_at=5.0))) == [Wake(60.0)]
    assert machine.handle(JobFinished(7.5, "a")) == [Wake(60.0)]
    assert machine.handle(Tick(59.0)) == [Wake(60.0)]
    assert machine.state_of("b") is JobState.ASKING
    said = machine.handle(Tick(60.0))
    assert kinds(said) == ["Admit", "Admit", "Start", "Start"]
    assert grants(said) == {"b": (0, 1), "c": (2, 3)}
    assert machine.next_finish_at() == 110.0
    machine.validate()


def test_after_a_calm_slot_a_decision_comes_at_once() -> None:
    machine = scheduler(slot=60.0)
    machine.handle(JobSubmitted(0.0, job("a")))
    assert kinds(machine.handle(JobSubmitted(61.0, job("b", submitted_at=61.0)))) == ["Admit", "Start"]
    assert machine.earliest_round(70.0) == 121.0


def test_several_events_in_one_call_are_one_decision() -> None:
    machine = scheduler()
    said = machine.handle(JobSubmitted(0.0, job("a", requested=2)), JobSubmitted(0.0, job("b", requested=2)), Tick(3.0))
    assert kinds(said) == ["Admit", "Admit", "Start", "Start"]
    assert machine.finishing_by(53.0) == [(53.0, "a"), (53.0, "b")], "granted at the time of the last event"


def test_nothing_to_do_is_no_instruction() -> None:
    machine = scheduler()
    assert machine.handle() == []
    assert machine.handle(Tick(5.0)) == []
    assert machine.next_finish_at() == math.inf


@pytest.mark.parametrize("holder", ["running", "waiting"])
def test_a_cancelled_job_is_stopped_and_makes_room(holder: str) -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("running", requested=4)), JobSubmitted(0.0, job("waiting", requested=4)))
    said = machine.handle(JobCancelled(5.0, holder))
    assert said[0] == Stop(holder, "cancelled")
    assert grants(said) == ({"waiting": (0, 1, 2, 3)} if holder == "running" else {})
    assert machine.state_of(holder) is JobState.CANCELLED
    assert len(machine.active()) == 1
    machine.validate()


def test_a_job_may_be_cancelled_before_it_is_answered() -> None:
    machine = scheduler(slot=60.0)
    machine.handle(JobSubmitted(0.0, job("a")))
    machine.handle(JobSubmitted(1.0, job("b", submitted_at=1.0)))
    assert machine.handle(JobCancelled(2.0, "b"))[0] == Stop("b", "cancelled")
    assert machine.handle(Tick(60.0)) == []


def test_a_refusal_is_the_end_of_it_and_asks_for_no_further_decision() -> None:
    machine = scheduler(policy="elasticflow", slot=60.0)
    said = machine.handle(JobSubmitted(0.0, job("hopeless", goal=Deadline(10.0))))
    assert kinds(said) == ["Decline"], "nothing changed for anybody, so nothing is left to decide"
    assert machine.state_of("hopeless") is JobState.DECLINED


def test_a_pause_delays_the_end_and_counts_as_held() -> None:
    costs = ExpectedCosts(Overhead(every_round_s=1.0, change_s=3.0, per_doubling_s=2.0))
    machine = scheduler(costs=costs)
    machine.handle(JobSubmitted(0.0, job("a", requested=4)))
    assert machine.next_finish_at() == 3 + 2 * 2 + 100 / 4
    machine.handle(Tick(2.0))
    machine.handle(JobSubmitted(17.0, job("b", requested=4, submitted_at=17.0)))
    assert machine.remaining("a") == 100 - (17 - 7) * 4
    assert machine.next_finish_at() == 17 + 1 + 60 / 4, "every decision stops it for a second"
    machine.validate()


def test_books_can_be_read_at_any_time() -> None:
    machine = scheduler("2x4")
    machine.handle(JobSubmitted(0.0, job("a", requested=3)))
    assert machine.devices_held() == 3
    assert machine.fragmentation() == 1 / 5
    assert machine.active() == ["a"]
    machine.handle(JobFinished(40.0, "a"))
    assert (machine.devices_held(), machine.fragmentation(), machine.active()) == (0, 0.0, [])
    assert (machine.remaining("a"), machine.devices_of("a")) == (0.0, ())


def test_without_stories_finished_jobs_are_forgotten() -> None:
    machine = scheduler(stories=False)
    machine.handle(JobSubmitted(0.0, job("a")))
    machine.handle(JobFinished(100.0, "a"))
    machine.handle(JobSubmitted(101.0, job("a", submitted_at=101.0)))
    assert machine.active() == ["a"]


@pytest.mark.parametrize("policy", ["edf-admission", "elasticflow", "deadline"])
def test_waking_for_planned_changes_does_not_keep_a_job_from_its_last_iterations(policy: str) -> None:
    machine = scheduler("1x1", policy, costs=ExpectedCosts(Overhead(every_round_s=1.0, change_s=3.0)))
    said = machine.handle(JobSubmitted(0.0, job("a", 0.5, goal=Deadline(100.0))))
    for _ in range(50):
        wake = min((each.at for each in said if isinstance(each, Wake)), default=math.inf)
        done = machine.finishing_by(wake)
        if done:
            break
        said = machine.handle(Tick(wake))
    assert done, "every decision stops the job for a second, and every half second there is one: it never ends"
    assert done[0][0] <= 10.0
