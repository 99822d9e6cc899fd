"""Earliest deadline first, as wide as possible; with admission, only what is surely in time."""

import numpy as np

from penstock.core import Curve, Deadline, JobSubmitted, Verdict
from penstock.policies import KindView, Standing, policy_named
from penstock.scheduler.testing import CheckedWorld
from tests.policies.views import Row, view
from tests.scheduler.build import job, scheduler

FALLS_AFTER_TWO = Curve.from_table({1: 1.0, 2: 1.5, 4: 1.2})


def widths(world: KindView, policy: str = "edf") -> list[int]:
    return policy_named(policy).allocate(world).widths.tolist()


def test_the_first_due_is_as_wide_as_it_can_go() -> None:
    assert widths(view(Row(due=200.0), Row(due=100.0))) == [0, 4]


def test_no_wider_than_helps() -> None:
    assert widths(view(Row(due=100.0, curve=FALLS_AFTER_TWO), Row(due=200.0))) == [2, 2]


def test_leftovers_are_used_by_the_widest_level_that_fits() -> None:
    assert widths(view(Row(due=100.0, at_most=1), Row(due=200.0), Row(due=300.0))) == [1, 2, 1]


def test_jobs_without_a_deadline_come_last_by_arrival() -> None:
    crowd = view(Row(submitted=1.0, at_most=2), Row(due=1e6, at_most=2), Row(submitted=0.0, at_most=2), now=1.0)
    assert widths(crowd) == [0, 2, 2]


def test_equal_deadlines_go_by_arrival() -> None:
    assert widths(view(Row(due=100.0, submitted=5.0), Row(due=100.0, submitted=2.0), now=5.0)) == [0, 4]


def test_plain_edf_lets_everybody_in() -> None:
    machine = scheduler(policy="edf")
    machine.handle(JobSubmitted(0.0, job("hopeless", 1e6, goal=Deadline(10.0))))
    assert machine.quote_of("hopeless").verdict is Verdict.BEST_EFFORT  # type: ignore[union-attr]


def quotes(*rows: Row, capacity: int = 4) -> list[tuple[Verdict, float]]:
    world = view(*rows, capacity=capacity)
    asked = np.flatnonzero(world.standing == Standing.UNANSWERED)
    answers = policy_named("edf-admission").admit(world, asked)
    return [
        (q.verdict, q.finish_at if q.verdict is Verdict.PROMISED else q.counter_offer) for q in answers
    ]  # fmt: skip


def test_admission_plans_everybody_widest_first() -> None:
    assert quotes(Row(due=60.0, standing=0), Row(due=60.0, standing=0), Row(due=60.0, standing=0)) == [
        (Verdict.PROMISED, 25.0),
        (Verdict.PROMISED, 50.0),
        (Verdict.REFUSED, 75.0),
    ]


def test_an_earlier_deadline_goes_first_if_the_promised_job_can_wait() -> None:
    promised = Row(due=60.0, standing=Standing.PROMISED)
    assert quotes(promised, Row(due=30.0, standing=0)) == [(Verdict.PROMISED, 25.0)]
    assert quotes(Row(due=40.0, standing=Standing.PROMISED), Row(due=30.0, standing=0)) == [(Verdict.REFUSED, 50.0)]


def test_promised_jobs_come_before_an_earlier_deadline_that_was_not_promised() -> None:
    soft = Row(due=30.0, soft=True, standing=Standing.ADMITTED)
    assert widths(view(soft, Row(due=50.0, standing=Standing.PROMISED)), "edf-admission") == [0, 4]


def test_what_the_promised_leave_goes_to_the_others() -> None:
    promised = Row(due=500.0, at_most=1, standing=Standing.PROMISED)
    assert widths(view(promised, Row(due=900.0, soft=True, at_most=2), Row()), "edf-admission") == [1, 2, 1]


def test_every_promise_is_met_and_no_other_is_made() -> None:
    machine = scheduler(policy="edf-admission")
    script = [
        JobSubmitted(5.0 * i, job(f"j{i}", 60.0, goal=Deadline(5.0 * i + 35.0), submitted_at=5.0 * i)) for i in range(9)
    ]
    CheckedWorld(machine).run(script, [event.at for event in script])
    ends = {e.job.id: machine.why(e.job.id).entries[-1] for e in script}
    met = [e.job.id for e in script if ends[e.job.id].text == "finished" and ends[e.job.id].at <= e.job.deadline]
    promised = [e.job.id for e in script if machine.quote_of(e.job.id).verdict is Verdict.PROMISED]  # type: ignore[union-attr]
    assert met == promised
    assert 0 < len(promised) < len(script)
