"""Jobs that take time to start and to end: in projections, in promises and in plans."""

from dataclasses import replace

import pytest

from penstock.core import (
    NO_COSTS,
    Costs,
    CostsChanged,
    Curve,
    Deadline,
    InputError,
    Job,
    JobFinished,
    JobSubmitted,
    Progress,
    Scaling,
    Span,
    Start,
    Tick,
    Verdict,
)
from penstock.scheduler import Scheduler
from tests.scheduler.build import job, scheduler

COSTS = Costs(start=Span(10.0, 14.0), resize=Span(2.0, 3.0), end=Span(4.0, 5.0))


def slow(name: str, work: float = 100.0, costs: Costs = COSTS, **more: object) -> Job:
    return replace(job(name, work, **more), costs=costs)  # type: ignore[arg-type]


def alone(**more: object) -> Scheduler:
    machine = scheduler(policy="deadline")
    machine.handle(JobSubmitted(0.0, slow("a", at_most=1, **more)))
    return machine


def test_a_forecast_includes_start_and_end() -> None:
    assert alone().next_finish_at() == 10 + 100 + 4


def test_nothing_is_done_before_the_first_step_and_nothing_left_after_the_last() -> None:
    machine = alone()
    assert machine.remaining("a", 9.0) == 100.0
    machine.handle(Tick(60.0))
    assert machine.remaining("a") == 50.0
    machine.handle(Tick(112.0))
    assert machine.remaining("a") == 0.0
    assert machine.next_finish_at() == 114.0, "it is only ending: that it takes so long was known"
    machine.validate()
    machine.handle(JobFinished(114.0, "a"))
    machine.validate()


def test_one_that_should_have_ended_is_taken_to_need_longer() -> None:
    machine = alone()
    machine.handle(Tick(120.0))
    assert machine.remaining("a") == pytest.approx(1.0)
    machine.validate()


def test_progress_before_it_was_expected_ends_the_start() -> None:
    machine = alone()
    machine.handle(Progress(3.0, "a", 99.0))
    assert machine.next_finish_at() == 3 + 99 + 4
    machine.validate()


def test_costs_that_change_move_the_forecast_of_the_end() -> None:
    machine = alone()
    machine.handle(CostsChanged(50.0, "a", replace(COSTS, end=Span(30.0, 40.0))))
    assert machine.next_finish_at() == 10 + 100 + 30
    machine.validate()


@pytest.mark.parametrize(("within", "verdict"), [(119.5, Verdict.PROMISED), (118.5, Verdict.DEFERRED)])
def test_a_promise_keeps_the_longest_start_and_end_in_reserve(within: float, verdict: Verdict) -> None:
    machine = alone(goal=Deadline(within))
    quote = machine.quote_of("a")
    assert quote is not None
    assert quote.verdict is verdict


def test_a_deadline_that_likely_costs_alone_exceed_is_refused() -> None:
    quote = alone(goal=Deadline(113.0)).quote_of("a")
    assert quote is not None
    assert quote.verdict is Verdict.REFUSED
    assert "even alone" in quote.reason
    assert quote.counter_offer >= 119.0


def test_a_promise_allows_for_the_doubt_about_a_speed() -> None:
    doubted = Curve((("gpu", Scaling(counts=(1,), rates=(1.0,), doubts=(0.2,))),))
    verdicts = []
    for within in (126.0, 124.0):
        machine = scheduler(policy="deadline")
        machine.handle(JobSubmitted(0.0, job("a", 100.0, curve=doubted, at_most=1, goal=Deadline(within))))
        quote = machine.quote_of("a")
        verdicts.append(quote.verdict if quote else None)
    assert verdicts == [Verdict.PROMISED, Verdict.DEFERRED]


def test_a_promised_job_that_has_begun_is_not_planned_as_if_it_trained_already() -> None:
    """At 5 it still has five seconds of its start before it; a second promise must not count on them."""
    machine = scheduler("1x1", "deadline")
    machine.handle(JobSubmitted(0.0, slow("a", at_most=1, goal=Deadline(120.0))))
    machine.handle(JobSubmitted(5.0, job("b", 5.0, at_most=1, submitted_at=5.0, goal=Deadline(116.0))))
    quotes = [machine.quote_of(name) for name in ("a", "b")]
    assert [quote.verdict for quote in quotes if quote] == [Verdict.PROMISED, Verdict.DEFERRED]
    machine.validate()


def test_jobs_without_costs_are_as_they_were() -> None:
    machine = scheduler()
    out = machine.handle(JobSubmitted(0.0, job("a", 100.0, at_most=1)))
    assert job("a").costs == NO_COSTS
    assert any(isinstance(each, Start) for each in out)
    assert machine.next_finish_at() == 100.0


@pytest.mark.parametrize(("likely", "most"), [(-1.0, 2.0), (3.0, 2.0), (1.0, float("inf"))])
def test_a_span_is_in_order(likely: float, most: float) -> None:
    with pytest.raises(InputError, match="the likely one first"):
        Span(likely, most)
