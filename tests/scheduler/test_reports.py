"""What jobs report about themselves: how far they are and how fast they run."""

import math

import pytest

from penstock.core import (
    Curve,
    CurveChanged,
    Deadline,
    EventError,
    JobFinished,
    JobSubmitted,
    Progress,
    Tick,
    Verdict,
)
from penstock.scheduler import JobState
from tests.scheduler.build import job, scheduler


@pytest.mark.parametrize(("left", "end"), [(95.0, 105.0), (90.0, 100.0), (20.0, 30.0), (0.0, 10.0)])
def test_a_report_replaces_the_projection(left: float, end: float) -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a")))
    machine.handle(Progress(10.0, "a", left))
    assert machine.remaining("a") == pytest.approx(left, abs=1e-5)
    assert machine.next_finish_at() == pytest.approx(end, abs=1e-5)
    machine.validate()


def test_a_waiting_job_may_report_too() -> None:
    machine = scheduler(policy="srtf")
    machine.handle(JobSubmitted(0.0, job("long", requested=4)))
    machine.handle(JobSubmitted(5.0, job("short", 4.0, requested=4, submitted_at=5.0)))
    machine.handle(Progress(5.5, "long", 84.0))
    assert machine.remaining("long") == 84.0
    machine.handle(JobFinished(6.0, "short"))
    assert machine.next_finish_at() == 6 + 84 / 4
    machine.validate()


def test_a_job_that_ends_before_its_projection_is_simply_done() -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a")))
    machine.handle(JobFinished(40.0, "a"))
    assert machine.state_of("a") is JobState.FINISHED
    machine.validate()


def test_a_report_after_the_projected_end_sets_the_job_back() -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a")))
    machine.handle(Tick(130.0))
    assert machine.remaining("a") == 1.0, "it is overdue, so it is taken to need another second"
    machine.validate()
    machine.handle(Progress(130.0, "a", 25.0))
    assert machine.next_finish_at() == 155.0
    machine.validate()


@pytest.mark.parametrize("policy", ["fifo", "edf", "edf-admission", "elasticflow", "deadline"])
def test_a_job_past_its_projected_end_keeps_its_devices_until_it_reports(policy: str) -> None:
    machine = scheduler("1x1", policy)
    machine.handle(JobSubmitted(0.0, job("a", goal=Deadline(200.0))))
    machine.handle(JobSubmitted(101.0, job("b", goal=Deadline(400.0), submitted_at=101.0)))
    assert machine.devices_of("a") == (0,), "projections are estimates: it is about to report its end"
    machine.handle(JobFinished(101.5, "a"))
    assert machine.devices_of("b") == (0,)
    machine.validate()


@pytest.mark.parametrize("policy", ["edf-admission", "elasticflow", "deadline"])
def test_a_job_that_reports_to_be_done_before_it_is_answered_is_no_trouble(policy: str) -> None:
    machine = scheduler("1x2", policy)
    machine.handle(JobSubmitted(0.0, job("a", goal=Deadline(1000.0))), Progress(0.0, "a", 0.0))
    quote = machine.quote_of("a")
    assert quote is not None
    assert quote.verdict is Verdict.PROMISED
    assert quote.finish_at == pytest.approx(0.0, abs=1e-5)
    machine.validate()


@pytest.mark.parametrize("left", [-1.0, math.nan, math.inf])
def test_an_impossible_report_is_refused(left: float) -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a")))
    with pytest.raises(EventError, match=rf"job 'a' reports {left} iterations left; allowed: zero or more"):
        machine.handle(Progress(10.0, "a", left))
    assert (machine.now, machine.next_finish_at()) == (0.0, 100.0)
    machine.validate()


def test_a_running_job_goes_on_at_the_speed_of_its_new_curve() -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a")))
    machine.handle(CurveChanged(10.0, "a", Curve.from_table({1: 2.0, 2: 3.0})))
    assert machine.remaining("a") == 90.0
    assert machine.next_finish_at() == 10 + 90 / 2
    machine.validate()


def test_a_new_curve_counts_between_decisions_too() -> None:
    machine = scheduler(slot=60.0)
    machine.handle(JobSubmitted(0.0, job("a")))
    machine.handle(CurveChanged(10.0, "a", Curve.from_table({1: 0.5})))
    assert machine.next_finish_at() == 10 + 90 / 0.5
    machine.handle(JobFinished(40.0, "a"))
    machine.validate()


def test_an_elastic_job_is_widened_where_its_new_curve_pays() -> None:
    machine = scheduler(policy="edf")
    machine.handle(JobSubmitted(0.0, job("a", curve=Curve.from_table({1: 1.0, 2: 0.5}))))
    assert machine.devices_of("a") == (0,)
    machine.handle(CurveChanged(10.0, "a", Curve.from_table({1: 1.0, 4: 3.0})))
    assert machine.devices_of("a") == (0, 1, 2, 3)
    assert machine.next_finish_at() == 10 + 90 / 3


@pytest.mark.parametrize("policy", ["fifo", "srtf", "tiresias", "gandiva", "themis", "edf", "elasticflow", "deadline"])
@pytest.mark.parametrize("slot", [0.0, 60.0])
def test_a_job_whose_new_curve_needs_more_devices_than_it_holds_gets_them(policy: str, slot: float) -> None:
    machine = scheduler(policy=policy, slot=slot)
    machine.handle(JobSubmitted(0.0, job("a", 1000.0, curve=Curve.from_table({1: 1.0}))))
    machine.handle(CurveChanged(10.0, "a", Curve.from_table({2: 5.0})))
    machine.validate()
    machine.handle(Tick(60.0))
    assert len(machine.devices_of("a")) == 2
    machine.validate()


def test_a_curve_the_job_cannot_use_here_is_refused() -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a")))
    with pytest.raises(EventError, match="the new curve of job 'a' has no usable count on gpu"):
        machine.handle(CurveChanged(10.0, "a", Curve.from_table({8: 9.0})))
    assert machine.next_finish_at() == 100.0
    machine.validate()
