"""Paused, resumed, failed, finished a moment too late: one job, one id, one story."""

import pytest

from penstock.core import Costs as JobCosts
from penstock.core import (
    CostsChanged,
    Curve,
    CurveChanged,
    Deadline,
    EventError,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobPaused,
    JobResumed,
    JobSubmitted,
    NodeLost,
    Progress,
    Resume,
    Span,
    Stop,
    Suspend,
    Tick,
    Verdict,
)
from penstock.scheduler import JobState, Scheduler
from tests.scheduler.build import grants, job, kinds, scheduler


def running(policy: str = "fifo") -> Scheduler:
    """At time 10 "a" has done 20 of 100 iterations on two devices."""
    machine = scheduler("1x4", policy)
    machine.handle(JobSubmitted(0.0, job("a", requested=2, at_most=2, goal=Deadline(200.0))))
    machine.handle(Tick(10.0))
    return machine


def test_a_paused_job_gives_back_its_devices_and_keeps_its_work() -> None:
    machine = running()
    assert machine.handle(JobPaused(10.0, "a")) == [Suspend("a")]
    assert machine.state_of("a") is JobState.PAUSED
    assert machine.devices_of("a") == ()
    assert machine.active() == []
    assert machine.paused() == ["a"]
    assert machine.remaining("a", 500.0) == 80.0
    assert machine.is_active("a")
    assert machine.why("a").now.startswith("paused")
    machine.validate()


def test_a_resumed_job_asks_again_and_goes_on_where_it_was() -> None:
    machine = running("deadline")
    machine.handle(JobPaused(10.0, "a"))
    told = machine.handle(JobResumed(60.0, "a"))
    assert kinds(told)[:2] == ["Admit", "Resume"]
    assert machine.quote_of("a").verdict is Verdict.PROMISED  # type: ignore[union-attr]
    assert machine.job("a").goal == Deadline(200.0), "its deadline is as hard as it was"
    assert machine.next_finish_at() == pytest.approx(100.0)
    entries = [entry.text for entry in machine.why("a").entries]
    assert [text.split(":")[0].split(" on")[0] for text in entries] == [
        "submitted", "promised", "started", "paused", "resumed", "promised", "resumed",
    ]  # fmt: skip
    assert "80 iterations left, within 2m 20s" in entries[4]
    machine.validate()


def test_a_promise_does_not_outlive_a_pause() -> None:
    machine = running("deadline")
    assert machine.quote_of("a").verdict is Verdict.PROMISED  # type: ignore[union-attr]
    machine.handle(JobPaused(10.0, "a"))
    assert machine.quote_of("a") is None
    told = machine.handle(JobResumed(190.0, "a"))
    assert kinds(told) == ["Decline"], "it cannot make it any more, and its deadline is hard"


def test_it_may_be_resumed_with_another_deadline() -> None:
    machine = running("deadline")
    machine.handle(JobPaused(10.0, "a"))
    told = machine.handle(JobResumed(190.0, "a", Deadline(400.0)))
    assert kinds(told)[:2] == ["Admit", "Resume"]
    assert machine.job("a").deadline == 400.0


def test_what_is_learned_meanwhile_counts() -> None:
    machine = running()
    machine.handle(JobPaused(10.0, "a"))
    machine.handle(Progress(11.0, "a", 50.0))
    machine.handle(CurveChanged(12.0, "a", Curve.from_table({1: 5.0, 2: 10.0})))
    machine.handle(CostsChanged(13.0, "a", JobCosts(start=Span(3.0, 3.0))))
    assert machine.remaining("a") == 50.0
    told = machine.handle(JobResumed(20.0, "a"))
    assert grants(told) == {"a": (0, 1)}
    assert machine.next_finish_at() == pytest.approx(20.0 + 3.0 + 5.0)
    machine.validate()


def test_a_paused_job_can_end_in_every_way() -> None:
    for event, state in (
        (JobCancelled(20.0, "a"), JobState.CANCELLED),
        (JobFailed(20.0, "a", "out of memory"), JobState.FAILED),
        (JobFinished(20.0, "a"), JobState.FINISHED),
    ):
        machine = running()
        machine.handle(JobPaused(10.0, "a"))
        machine.handle(event)
        assert machine.state_of("a") is state
        machine.validate()


def test_a_failed_job_is_over_and_says_why() -> None:
    machine = running()
    assert machine.handle(JobFailed(15.0, "a", "out of memory")) == [Stop("a", "failed")]
    assert machine.state_of("a") is JobState.FAILED
    assert machine.why("a").entries[-1].text == "failed: out of memory"
    assert machine.devices_held() == 0


def test_a_job_that_lost_its_devices_may_still_say_that_it_is_done() -> None:
    machine = running()
    machine.handle(NodeLost(20.0, "node-0"))
    machine.handle(JobFinished(20.5, "a"))
    assert machine.state_of("a") is JobState.FINISHED


def test_a_paused_job_may_ask_for_a_kind_it_did_not_run_on() -> None:
    machine = scheduler("1x4xA+1x2xB", "fifo")
    curve = Curve((*Curve.from_table({1: 1.0}, "A").scalings, *Curve.from_table({1: 0.5}, "B").scalings))
    machine.handle(JobSubmitted(0.0, job("a", curve=curve)))
    assert machine.devices_of("a") == (0,)
    machine.handle(JobPaused(10.0, "a"))
    faster = Curve((*Curve.from_table({1: 1.0}, "A").scalings, *Curve.from_table({1: 4.0}, "B").scalings))
    machine.handle(CurveChanged(11.0, "a", faster))
    [resumed] = [told for told in machine.handle(JobResumed(12.0, "a")) if isinstance(told, Resume)]
    assert resumed.grant.kind == "B"
    machine.validate()


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (JobResumed(20.0, "a"), "job 'a' is running, not paused"),
        (JobPaused(20.0, "paused"), "job 'paused' is paused already"),
        (JobPaused(20.0, "nobody"), "no job 'nobody' is known here"),
        (JobResumed(20.0, "paused", Deadline(0.0)), "cannot be resumed with"),
        (CurveChanged(20.0, "paused", Curve.from_table({1: 1.0}, "npu")), "no usable count"),
    ],
)
def test_what_does_not_fit_changes_nothing(event: JobPaused, message: str) -> None:
    machine = running()
    machine.handle(JobSubmitted(11.0, job("paused", submitted_at=11.0)), JobPaused(12.0, "paused"))
    before = machine.to_data()
    with pytest.raises(EventError, match=message):
        machine.handle(event)
    assert machine.to_data() == before


def test_a_twin_knows_who_is_paused() -> None:
    machine = running()
    machine.handle(JobPaused(10.0, "a"))
    twin = machine.twin()
    assert kinds(twin.handle(JobResumed(20.0, "a"))) == ["Admit", "Resume"]
    assert machine.paused() == ["a"]


def test_a_job_that_is_over_can_be_forgotten_with_its_story() -> None:
    machine = running()
    with pytest.raises(EventError, match="job 'a' is running; only jobs that are over can be forgotten"):
        machine.forget("a")
    machine.handle(JobFinished(50.0, "a"))
    assert machine.forget("a").entries[-1].text == "finished"
    with pytest.raises(EventError, match="no job 'a' is known here"):
        machine.state_of("a")
    assert machine.to_data()["records"] == []
