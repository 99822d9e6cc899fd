"""GENIE-like: the fewest devices that meet the deadline, least laxity first."""

import math

from penstock.core import Curve, Deadline, JobSubmitted, Tick
from penstock.policies.published.genie import Genie, levels_in_time
from tests.policies.views import Row, view
from tests.scheduler.build import job, scheduler

CONCAVE = Curve.from_table({1: 1.0, 2: 1.8, 4: 3.0})


def test_the_fewest_devices_that_meet_the_deadline() -> None:
    for due, width in ((100.0, 1), (99.0, 2), (50.0, 4)):
        assert Genie().allocate(view(Row(curve=CONCAVE, due=due))).widths.tolist() == [width]


def test_no_level_is_in_time_without_a_deadline_or_after_it() -> None:
    assert not levels_in_time(view(Row(), Row(due=20.0))).any()


def test_the_least_laxity_goes_first() -> None:
    loose, tight = Row(work=100.0, due=400.0, at_least=4, requested=4), Row(work=400.0, due=101.0)
    assert Genie().allocate(view(loose, tight)).widths.tolist() == [0, 4]


def test_deadlines_go_before_the_rest_and_hopeless_ones_are_the_rest() -> None:
    hopeless, best_effort, due = Row(work=400.0, due=10.0, requested=2), Row(requested=2), Row(due=50.0)
    assert Genie().allocate(view(hopeless, best_effort, due)).widths.tolist() == [0, 2, 2]


def test_nobody_is_interrupted_or_resized() -> None:
    runs = Row(width=4, requested=4, work=1e6)
    decision = Genie().allocate(view(runs, Row(due=30.0)))
    assert decision.widths.tolist() == [4, 0]
    assert math.isclose(decision.wake_at, 5.0, abs_tol=1e-5), "25 s on all devices before its deadline"


def test_a_job_that_missed_its_chance_takes_what_is_free() -> None:
    machine = scheduler("1x4", "genie")
    machine.handle(JobSubmitted(0.0, job("first", 1e6, requested=2)))
    machine.handle(JobSubmitted(1.0, job("late", 120.0, goal=Deadline(40.0), submitted_at=1.0, requested=1)))
    assert machine.devices_of("late") == (), "only all four devices would do"
    machine.handle(Tick(machine.due_at))
    assert len(machine.devices_of("late")) == 1
