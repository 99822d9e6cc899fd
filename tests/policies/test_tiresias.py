"""Least attained service in queues: demotion, promotion, and waking up for both."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.core import Instruction, JobSubmitted, Progress, Tick, Wake
from penstock.policies import policy_named
from penstock.policies.published.tiresias import Tiresias
from penstock.scheduler import Scheduler
from tests.policies.views import Row, view
from tests.scheduler.build import job, scheduler

FIRST, SECOND = 3250.0, 7200.0


@pytest.mark.parametrize(
    ("attained", "queue"), [(0.0, 0), (3249.0, 0), (3250.0, 1), (7199.0, 1), (7200.0, 2), (1e9, 2)]
)
def test_attained_service_decides_the_queue(attained: float, queue: int) -> None:
    assert Tiresias().queues(view(Row(attained=attained, executed=attained))).tolist() == [queue]


def test_lower_queues_go_first_and_inside_a_queue_the_first_come() -> None:
    crowd = [
        Row(attained=FIRST, executed=FIRST, submitted=0.0, width=1, requested=2),
        Row(submitted=2.0, requested=2),
        Row(attained=10.0, executed=10.0, submitted=1.0, requested=2),
    ]
    assert Tiresias().allocate(view(*crowd, now=5.0)).widths.tolist() == [0, 2, 2]


def test_two_jobs_of_similar_age_do_not_preempt_each_other() -> None:
    runs = Row(attained=3000.0, executed=750.0, width=4, requested=4, submitted=0.0)
    assert Tiresias().allocate(view(runs, Row(requested=4, submitted=1.0), now=750.0)).widths.tolist() == [4, 0]


@pytest.mark.parametrize(
    ("row", "after"),
    [
        (Row(attained=1250.0, executed=625.0, width=2, requested=2), (FIRST - 1250) / 2),
        (Row(requested=4), FIRST / 4),
        (Row(attained=4000.0, executed=1000.0, requested=4, width=4), (SECOND - 4000) / 4),
        (Row(attained=9000.0, executed=2250.0, requested=4, width=4), math.inf),
    ],
)
def test_it_wakes_when_a_running_job_falls_to_the_next_queue(row: Row, after: float) -> None:
    assert Tiresias().allocate(view(row, now=1000.0)).wake_at == 1000.0 + after


def test_a_demoted_job_makes_room_for_the_one_that_waits() -> None:
    machine = scheduler(policy="tiresias")
    machine.handle(JobSubmitted(0.0, job("old", 1e5, requested=4)))
    said = machine.handle(JobSubmitted(1.0, job("new", 1e5, requested=4, submitted_at=1.0)))
    assert wake_of(said) == FIRST / 4
    machine.handle(Tick(FIRST / 4))
    assert (machine.devices_of("old"), machine.devices_of("new")) == ((), (0, 1, 2, 3))


def wake_of(said: list[Instruction]) -> float:
    return next((each.at for each in said if isinstance(each, Wake)), math.inf)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.0, 1e6), st.sampled_from([1, 2, 3, 4]), st.floats(0.1, 700.0))
@example(start=64453.0, width=3, later=1.0)
def test_rounding_does_not_keep_a_job_in_its_queue(start: float, width: int, later: float) -> None:
    machine = scheduler(policy="tiresias")
    machine.handle(JobSubmitted(start, job("old", 1e6, requested=width)))
    wake = wake_of(
        machine.handle(JobSubmitted(start + later, job("new", 1e6, requested=4, submitted_at=start + later)))
    )
    for _ in range(3):
        if math.isfinite(wake) and not machine.devices_of("new"):
            wake = wake_of(machine.handle(Tick(wake)))
    assert machine.devices_of("new"), "woken up for the demotion, and then not demoted"
    assert machine.now == pytest.approx(start + FIRST / width)


def test_who_waited_long_for_what_it_ran_returns_to_the_first_queue_for_one_stint() -> None:
    waiting = Row(attained=4000.0, executed=1000.0, stint_since=2000.0, requested=4)
    assert Tiresias().queues(view(waiting, now=2000.0 + 7999.0)).tolist() == [1]
    assert Tiresias().queues(view(waiting, now=2000.0 + 8000.0)).tolist() == [0]
    again = Row(
        attained=4000.0 + 3200.0,
        executed=1000.0 + 800.0,
        width=4,
        requested=4,
        stint_since=10_000.0,
        waited_before=8000.0,
    )
    assert Tiresias().queues(view(again, now=10_800.0)).tolist() == [0]
    worn = Row(
        attained=4000.0 + 3280.0,
        executed=1000.0 + 820.0,
        width=4,
        requested=4,
        stint_since=10_000.0,
        waited_before=8000.0,
    )
    assert Tiresias().queues(view(worn, now=10_820.0)).tolist() == [2]


def test_a_job_that_never_ran_is_not_promoted_for_waiting() -> None:
    assert Tiresias().queues(view(Row(), now=1e6)).tolist() == [0]


def two_old_jobs(promote: float) -> Scheduler:
    """On one device: "first" and "second" have both fallen to the last queue, and "first" runs."""
    machine = Scheduler(scheduler("1x1").cluster, Tiresias(limits=(10.0, 20.0), promote=promote))
    machine.handle(JobSubmitted(0.0, job("first", 1e6)), JobSubmitted(0.0, job("second", 1e6)))
    for at in (10.0, 20.0, 30.0, 40.0):
        machine.handle(Tick(at))
    assert machine.devices_of("first") == (0,)
    return machine


def test_a_promotion_does_not_wait_for_something_else_to_happen() -> None:
    machine = two_old_jobs(promote=8.0)
    promoted_at = 40.0 + 8 * 20.0
    wake = wake_of(machine.handle(Progress(41.0, "first", 1e5)))
    assert wake == pytest.approx(promoted_at), "the second has run 20 s and waits since 40: 160 s later it is promoted"
    machine.handle(Tick(promoted_at + 1e-6))
    assert machine.devices_of("second") == (0,)


def test_a_promoted_job_falls_back_after_its_stint_without_something_else_happening() -> None:
    machine = two_old_jobs(promote=2.0)
    wake = wake_of(machine.handle(Progress(80.0, "first", 1e5)))
    assert machine.devices_of("second") == (0,), "it waited 40 s for the 20 s it ran"
    assert wake == pytest.approx(90.0), "one more stint of 10 device-seconds"
    machine.handle(Tick(90.0 + 1e-6))
    assert machine.devices_of("first") == (0,)


def test_the_default_limits_are_those_of_public_re_implementations() -> None:
    assert policy_named("tiresias").limits.tolist() == [FIRST, SECOND]  # type: ignore[attr-defined]
