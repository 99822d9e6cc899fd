"""What a metric says about the rest of a job: the expected number for the order, the safe one for promises."""

import math

import pytest

from penstock.core import Deadline, EventError, JobPaused, JobSubmitted, OutlookChanged, Tick, Verdict
from penstock.policies import policy_named
from penstock.scheduler import Scheduler
from tests.scheduler.build import grants, job, scheduler


def test_what_is_expected_is_what_is_left_and_decides_the_order() -> None:
    machine = scheduler("1x1", policy="srtf")
    machine.handle(JobSubmitted(0.0, job("a", 100.0)), JobSubmitted(0.0, job("b", 90.0)))
    assert machine.devices_of("b")
    told = machine.handle(OutlookChanged(10.0, "a", remaining=20.0, allowance=70.0, reach=0.8))
    assert "a" in grants(told)
    assert machine.remaining("a") == 20.0
    machine.validate()


def test_a_promise_counts_on_nine_of_ten_cases() -> None:
    """Of 995 seconds, 500 are kept for the first: 600 more are too many, although 200 of the 500 are expected."""
    machine = scheduler("1x1", policy="deadline", slot=1.0)
    machine.handle(JobSubmitted(0.0, job("a", 1000.0, at_most=1, goal=Deadline(1005.0))), Tick(0.0))
    machine.handle(OutlookChanged(10.0, "a", remaining=200.0, allowance=300.0, reach=0.9))
    for now, name, work, promised in ((20.0, "large", 600.0, False), (30.0, "small", 400.0, True)):
        second = job(name, work, at_most=1, submitted_at=now, goal=Deadline(1005.0))
        machine.handle(JobSubmitted(now, second), Tick(now))
        machine.validate()
        quote = machine.quote_of(name)
        assert (quote is not None and quote.verdict is Verdict.PROMISED) == promised, name


def test_a_promise_that_became_unlikely_is_told() -> None:
    machine = scheduler("1x1", policy="deadline", slot=1.0)
    machine.handle(JobSubmitted(0.0, job("a", 100.0, at_most=1, goal=Deadline(150.0))), Tick(0.0))
    machine.handle(OutlookChanged(5.0, "a", remaining=50.0, allowance=20.0, reach=0.9), Tick(5.0))
    assert not any("unlikely" in entry.text for entry in machine.why("a").entries)
    machine.handle(OutlookChanged(20.0, "a", remaining=100.0, allowance=60.0, reach=0.6), Tick(20.0))
    (told,) = [entry.text for entry in machine.why("a").entries if "unlikely" in entry.text]
    assert told.startswith("its promise became unlikely: it may end ")
    machine.validate()


def test_it_survives_a_snapshot_and_a_pause() -> None:
    machine = scheduler("1x1", policy="deadline", slot=1.0)
    machine.handle(JobSubmitted(0.0, job("a", 100.0, at_most=1)), Tick(0.0))
    machine.handle(OutlookChanged(10.0, "a", remaining=40.0, allowance=30.0, reach=1.0), Tick(10.0))
    again = Scheduler.from_data(machine.to_data(), policy_named("deadline"))
    assert again.to_data() == machine.to_data()
    machine.handle(JobPaused(12.0, "a"))
    machine.handle(OutlookChanged(13.0, "a", remaining=7.0, allowance=1.0, reach=1.0))
    assert machine.remaining("a") == 7.0
    machine.validate()


@pytest.mark.parametrize("bad", [{"remaining": math.nan}, {"remaining": -1.0}, {"allowance": math.inf}])
def test_numbers_that_cannot_be_are_refused(bad: dict[str, float]) -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a")))
    with pytest.raises(EventError):
        machine.handle(OutlookChanged(1.0, "a", **{"remaining": 5.0, "allowance": 1.0, "reach": 1.0, **bad}))
    assert machine.remaining("a") == 100.0
