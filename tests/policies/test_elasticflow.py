"""ElasticFlow: the minimum satisfactory share, admission against it, idle devices where they help most."""

import math

import numpy as np
import pytest

from penstock.core import Curve, Deadline, JobSubmitted, Quote, Verdict
from penstock.policies import Allocation, Standing, policy_named
from penstock.policies.published.elasticflow import device_time, give_idle
from penstock.scheduler.testing import CheckedWorld
from tests.policies.views import Row, view
from tests.scheduler.build import job, scheduler

CONCAVE = Curve.from_table({1: 1.0, 2: 1.8, 4: 3.0})
POOR = Curve.from_table({1: 1.0, 2: 1.1})
GOOD = Curve.from_table({1: 1.0, 2: 1.9})


def ask(*rows: Row, capacity: int = 4, slot: float = 0.0) -> list[Quote]:
    world = view(*rows, capacity=capacity, slot=slot)
    return list(policy_named("elasticflow").admit(world, np.flatnonzero(world.standing == Standing.UNANSWERED)))


def allocate(*rows: Row, capacity: int = 4, now: float = 0.0) -> Allocation:
    return policy_named("elasticflow").allocate(view(*rows, capacity=capacity, now=now))


@pytest.mark.parametrize(("due", "devices", "end"), [(100.0, 1, 100.0), (99.0, 2, 100 / 1.8), (50.0, 4, 100 / 3)])
def test_the_share_is_the_least_that_meets_the_deadline(due: float, devices: int, end: float) -> None:
    (quote,) = ask(Row(curve=CONCAVE, due=due, standing=0))
    assert (quote.verdict, quote.devices, quote.finish_at) == (Verdict.PROMISED, devices, pytest.approx(end))
    assert quote.device_seconds == pytest.approx(devices * end), "a wider share costs more device-time"


def test_a_share_narrows_where_earlier_jobs_have_reserved() -> None:
    first = Row(work=90.0, curve=CONCAVE, due=51.0, standing=Standing.PROMISED)
    (quote,) = ask(first, Row(work=200.0, due=75.0, standing=0), capacity=4)
    assert (quote.verdict, quote.devices) == (Verdict.PROMISED, 4)
    assert quote.finish_at == pytest.approx(75.0), "two devices until 50, then four"
    assert quote.device_seconds == pytest.approx(2 * 50 + 4 * 25)


def test_admission_refuses_what_would_break_an_earlier_promise() -> None:
    first = Row(work=100.0, due=50.0, standing=Standing.PROMISED)
    (quote,) = ask(first, Row(work=60.0, due=40.0, standing=0), capacity=2)
    assert quote.verdict is Verdict.REFUSED
    assert quote.reason == "finishing it in time would break promises already made"
    assert quote.counter_offer == 50 + 60 / 2


def test_admission_refuses_what_is_too_late_even_alone() -> None:
    (quote,) = ask(Row(work=100.0, due=20.0, standing=0))
    assert (quote.verdict, quote.counter_offer) == (Verdict.REFUSED, 25.0)
    assert quote.reason == "even alone on the cluster it would end 5s after its deadline"


def test_in_a_burst_the_first_come_are_served() -> None:
    burst = [Row(work=work, due=100.0, standing=0) for work in (90.0, 20.0, 10.0)]
    assert [quote.verdict for quote in ask(*burst, capacity=1)] == ["promised", "refused", "promised"]


def test_jobs_without_a_deadline_and_soft_ones_run_at_best_effort() -> None:
    quotes = ask(Row(standing=0), Row(work=100.0, due=20.0, soft=True, standing=0))
    assert [quote.verdict for quote in quotes] == [Verdict.BEST_EFFORT, Verdict.BEST_EFFORT]
    assert quotes[0].reason == "it has no deadline and runs on what is free"
    assert quotes[1].reason.endswith("; it runs when it can")


def test_a_slot_of_safety_is_kept_between_two_jobs() -> None:
    first = Row(work=100.0, due=50.0, standing=Standing.PROMISED)
    assert ask(first, Row(work=20.0, due=60.0, standing=0), capacity=2)[0].verdict is Verdict.PROMISED
    assert ask(first, Row(work=20.0, due=60.0, standing=0), capacity=2, slot=10.0)[0].verdict is Verdict.REFUSED


def test_everybody_holds_the_share_that_is_planned_now() -> None:
    tight, loose = Row(work=100.0, due=50.0, standing=Standing.PROMISED), Row(due=110.0, standing=Standing.PROMISED)
    decision = allocate(tight, loose, capacity=3)
    assert decision.widths.tolist() == [2, 1]
    assert decision.wake_at == math.inf, "that a job ends is told by the job"


def test_a_job_without_devices_is_served_before_anybody_grows() -> None:
    promised, best_effort = Row(due=110.0, standing=Standing.PROMISED, width=1), Row(curve=POOR)
    assert allocate(promised, best_effort, capacity=2).widths.tolist() == [1, 1]


def test_idle_devices_go_to_the_best_marginal_return() -> None:
    assert allocate(Row(curve=POOR), Row(curve=GOOD), capacity=3).widths.tolist() == [1, 2]
    assert allocate(Row(curve=GOOD), Row(curve=POOR), capacity=3).widths.tolist() == [2, 1]


def test_nothing_is_left_idle_that_somebody_can_use() -> None:
    assert allocate(Row(curve=POOR), Row(curve=GOOD), capacity=4).widths.tolist() == [2, 2]
    assert allocate(Row(curve=POOR), capacity=4).widths.tolist() == [2]


def test_device_time_counts_the_next_slot_wide_and_the_rest_at_the_share() -> None:
    levels, rates = np.array([1, 2]), np.array([1.0, 1.5])
    assert device_time(1, 0, 100.0, levels, rates, 10.0) == 2 * 10 + (100 - 15)
    assert device_time(1, 0, 12.0, levels, rates, 10.0) == 2 * 12 / 1.5, "done before the slot is over"


def test_a_doubling_that_does_not_fit_is_passed_over() -> None:
    widths = np.array([2, 1])
    levels, rates = np.array([[2, 4], [1, 2]]), np.array([[2.0, 4.0], [1.0, 1.01]])
    give_idle(widths, np.arange(2), widths.copy(), np.array([100.0, 100.0]), levels, rates, np.array([2, 2]), 4, 1.0)
    assert widths.tolist() == [2, 2]


def test_a_deadline_that_has_become_hopeless_does_not_stop_the_others() -> None:
    hopeless = Row(work=1e4, due=50.0, standing=Standing.PROMISED)
    decision = allocate(hopeless, Row(work=200.0, due=52.0, standing=Standing.PROMISED))
    assert decision.widths[1] == 4
    assert decision.plans is not None
    assert decision.plans.at[1, 1] == pytest.approx(50.0)


def test_without_promises_there_is_no_planned_change() -> None:
    assert allocate(Row(), Row()).wake_at == math.inf


def test_a_promised_job_that_is_squeezed_at_first_still_makes_it() -> None:
    machine = scheduler("1x4", "elasticflow")
    script = [
        JobSubmitted(0.0, job("tight", 90.0, curve=CONCAVE, goal=Deadline(51.0))),
        JobSubmitted(0.0, job("wide", 200.0, goal=Deadline(75.0))),
        JobSubmitted(10.0, job("greedy", 500.0, submitted_at=10.0)),
    ]
    CheckedWorld(machine).run(script, [event.at for event in script])
    for name, due in (("tight", 51.0), ("wide", 75.0)):
        assert machine.why(name).entries[-1].text == "finished"
        assert machine.why(name).entries[-1].at <= due + 1e-9
