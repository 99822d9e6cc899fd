"""A counter-offer is held: accepted in time it is a promise, by the tenant it was made to and for the same work."""

from dataclasses import replace

import pytest

from penstock.core import Curve, Deadline, Job, JobFinished, JobSubmitted, Quote, Scaling, Source, Tick, Verdict
from penstock.policies import policy_named
from penstock.scheduler import Scheduler
from tests.scheduler.build import job, scheduler

HOLD_S = 60.0


def rejected(policy: str = "deadline", **options: float) -> tuple[Scheduler, Job, Quote]:
    """Two devices are promised until 50; a job that would need both until 100 asks for 60 and is rejected then."""
    machine = scheduler("1x2", policy, **options)
    machine.handle(JobSubmitted(0.0, job("first", goal=Deadline(50.0))))
    late = job("late", goal=Deadline(40.0), submitted_at=0.0)
    machine.handle(JobSubmitted(0.0, late))
    quote = machine.quote_of("late")
    assert quote is not None
    assert quote.verdict is Verdict.REFUSED
    return machine, late, quote


def accept(machine: Scheduler, at: float, offer: Quote, asked: Job, **changes: object) -> Quote:
    again = replace(asked, id="again", goal=Deadline(offer.counter_offer), submitted_at=at, **changes)  # type: ignore[arg-type]
    machine.handle(JobSubmitted(at, again))
    quote = machine.quote_of("again")
    assert quote is not None
    return quote


@pytest.mark.parametrize("policy", ["deadline", "unified"])
@pytest.mark.parametrize("after_s", [0.0, 30.0, HOLD_S])
def test_an_offer_is_held_for_a_minute_against_everyone_else(policy: str, after_s: float) -> None:
    machine, asked, offer = rejected(policy)
    assert offer.offer_until == HOLD_S
    machine.handle(JobSubmitted(0.0, job("rival", 60.0, tenant="other", goal=Deadline(offer.counter_offer - 1.0))))
    assert accept(machine, after_s, offer, asked).verdict is Verdict.PROMISED
    while machine.is_active("again"):
        at = min(machine.next_finish_at(), machine.due_at)
        machine.handle(*(JobFinished(when, name) for when, name in machine.finishing_by(at)), Tick(at))
    assert machine.now <= offer.counter_offer + 1e-3


def test_a_later_deadline_accepts_it_too() -> None:
    machine, asked, offer = rejected()
    later = replace(offer, counter_offer=offer.counter_offer + 500.0)
    assert accept(machine, 10.0, later, asked).verdict is Verdict.PROMISED


def test_a_policy_may_hold_offers_for_another_time_or_not_at_all() -> None:
    assert rejected("deadline:hold_s=600")[2].offer_until == 600.0
    offer = rejected("deadline:hold_s=0")[2]
    assert (offer.held, offer.offer_until) == (None, float("inf"))
    assert offer.counter_offer == pytest.approx(100.0)


def crowded(machine: Scheduler, at: float) -> None:
    """Every device is asked for by a rival for the time after the first job."""
    machine.handle(JobSubmitted(at, job("rival", 200.0, tenant="other", goal=Deadline(160.0), submitted_at=at)))


@pytest.mark.parametrize("wrong", ["another tenant", "more work", "too late", "an earlier deadline"])
def test_what_is_no_acceptance(wrong: str) -> None:
    machine, asked, offer = rejected()
    held = machine._state.holdings.offers
    assert len(held) == 1
    again = replace(asked, id="again", goal=Deadline(offer.counter_offer), submitted_at=30.0)
    match wrong:
        case "another tenant":
            again = replace(again, tenant="other")
        case "more work":
            again = replace(again, work=replace(again.work, iterations=101.0))
        case "too late":
            again = replace(again, submitted_at=HOLD_S + 0.001)
        case _:
            again = replace(again, goal=Deadline(offer.counter_offer - 0.001))
    assert not held[0].serves(again)
    machine.handle(JobSubmitted(again.submitted_at, again))
    assert machine._state.holdings.offers == (held if wrong != "too late" else machine._state.holdings.offers)
    assert (quote := machine.quote_of("again")) is not None
    assert wrong == "too late" or quote.verdict is not Verdict.PROMISED


def test_a_slower_job_does_not_accept_what_it_can_no_longer_keep() -> None:
    machine, asked, offer = rejected()
    slower = Curve.from_table({1: 0.5, 2: 1.0, 4: 2.0})
    assert accept(machine, 10.0, offer, asked, curve=slower).verdict is not Verdict.PROMISED


def test_an_expired_offer_gives_its_devices_back() -> None:
    machine, _, offer = rejected()
    machine.handle(JobFinished(50.0, "first"))
    at = HOLD_S + 1.0
    rival = job("rival", tenant="other", goal=Deadline(at + 50.0), submitted_at=at)
    machine.handle(JobSubmitted(at, rival))
    assert (quote := machine.quote_of("rival")) is not None
    assert quote.verdict is Verdict.PROMISED
    assert offer.counter_offer > 0


def test_offers_survive_a_snapshot() -> None:
    machine, asked, offer = rejected()
    again = Scheduler.from_data(machine.to_data(), policy_named("deadline"))
    assert again._state.holdings.offers == machine._state.holdings.offers
    assert accept(again, 30.0, offer, asked).verdict is Verdict.PROMISED


def test_a_copy_accepts_without_using_the_offer_up() -> None:
    machine, asked, offer = rejected()
    assert accept(machine.twin(), 10.0, offer, asked).verdict is Verdict.PROMISED
    assert accept(machine, 10.0, offer, asked).verdict is Verdict.PROMISED


def test_the_source_of_a_speed_is_no_part_of_the_work() -> None:
    """Its curve may have been measured in the meantime."""
    machine, asked, offer = rejected()
    known = asked.curve.scalings[0][1]
    measured = Curve((("*", Scaling(counts=known.counts, rates=known.rates, source=Source.PREDICTED)),))
    assert accept(machine, 10.0, offer, asked, curve=measured).verdict is Verdict.PROMISED
