"""Jobs, goals, tenants and what they cannot be; plans, grants and what rescheduling costs."""

import math
from typing import Any

import pytest

from penstock.core import (
    BestEffort,
    Curve,
    Deadline,
    Grant,
    Job,
    JobError,
    Plan,
    Strictness,
    Tenant,
    ValueStep,
    Work,
)


def job(**changes: Any) -> Job:
    return Job(**({"id": "j", "work": Work(100.0), "curve": Curve.from_table({2: 10.0, 4: 16.0})} | changes))


@pytest.mark.parametrize("iterations", [0.0, -1.0, math.inf, math.nan])
def test_work_is_positive_and_finite(iterations: float) -> None:
    with pytest.raises(JobError, match=rf"work of {iterations} iterations\. Allowed: a positive, finite number\."):
        Work(iterations)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"submitted_at": -1.0}, r"job 'j' submitted at -1.0\. Allowed: zero or a positive time in seconds\."),
        ({"submitted_at": math.nan}, "submitted at nan"),
        ({"submitted_at": math.inf}, "submitted at inf"),
        ({"requested": 0}, r"job 'j' asks for 0 devices\. Allowed: at least 1\."),
        ({"at_least": -2}, "asks for -2 devices"),
        ({"at_least": 4, "at_most": 3}, r"wants at least 4 and at most 3 devices\.$"),
        ({"at_most": 0}, "at least 1 and at most 0"),
        ({"checkpoint_every_s": 0.0}, r"writes a checkpoint every 0.0 s\. Allowed: a positive number of seconds\."),
        ({"checkpoint_every_s": math.nan}, "every nan s"),
        (
            {"goal": Deadline(50.0), "submitted_at": 60.0},
            r"is due at 50 s but submitted at 60 s\. Allowed: a deadline after submission\. Give a later",
        ),
        ({"goal": Deadline(60.0), "submitted_at": 60.0}, "due at 60 s but submitted at 60 s"),
        ({"goal": Deadline(math.nan)}, "due at nan s"),
    ],
)
def test_a_job_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        job(**changes)


@pytest.mark.parametrize("share", [0.0, -1.0, math.inf, math.nan])
def test_a_tenant_has_a_share(share: float) -> None:
    with pytest.raises(JobError, match=rf"tenant 't' with share {share}\. Allowed: a positive, finite share\."):
        Tenant(name="t", share=share)


def test_a_quota_may_be_zero_but_not_less() -> None:
    assert Tenant(name="t", quota=0).quota == 0
    with pytest.raises(JobError, match=r"tenant 't' with quota -1\. Allowed: zero or more devices\."):
        Tenant(name="t", quota=-1)


@pytest.mark.parametrize(
    ("goal", "deadline", "hard"),
    [
        (Deadline(90.0), 90.0, True),
        (Deadline(90.0, Strictness.SOFT), 90.0, False),
        (BestEffort(), math.inf, False),
    ],
)
def test_the_goal_says_when_it_is_due_and_whether_late_is_worthless(goal: Any, deadline: float, hard: bool) -> None:
    assert (job(goal=goal).deadline, job(goal=goal).hard) == (deadline, hard)


def test_the_value_of_a_soft_deadline_falls_in_steps() -> None:
    goal = Deadline(90.0, Strictness.SOFT, (ValueStep(120.0, 0.5), ValueStep(200.0, 0.2)))

    assert [goal.value_at(at) for at in (1.0, 90.0, 90.1, 120.0, 200.0, 200.1)] == [1.0, 1.0, 0.5, 0.5, 0.2, 0.0]
    assert (job(goal=goal).deadline, job(goal=goal).hard, len(job(goal=goal).value_steps)) == (90.0, False, 3)
    assert [Deadline(90.0).value_at(at) for at in (90.0, 91.0)] == [1.0, 0.0]
    assert job().value_steps == ()


@pytest.mark.parametrize(
    ("strictness", "steps", "said"),
    [
        (Strictness.HARD, [(120.0, 0.5)], "values after a hard deadline"),
        (Strictness.SOFT, [(90.0, 0.5)], "a value of 50% that ends no later than the 100% before it"),
        (Strictness.SOFT, [(120.0, 0.5), (110.0, 0.2)], "a value of 20% that ends no later than the 50% before it"),
        (Strictness.SOFT, [(math.inf, 0.5)], "that ends no later"),
        (Strictness.SOFT, [(120.0, 1.5)], "a value of 150% after one of 100%"),
        (Strictness.SOFT, [(120.0, 0.0)], "above 0%"),
        (Strictness.SOFT, [(120.0, math.nan)], "a value of nan% after"),
        (Strictness.SOFT, [(91.0 + n, 0.9 - n / 10) for n in range(8)], "9 deadlines of falling value"),
    ],
)
def test_steps_come_in_order_and_fall(strictness: Strictness, steps: list[tuple[float, float]], said: str) -> None:
    with pytest.raises(JobError, match=said):
        Deadline(90.0, strictness, tuple(ValueStep(at, value) for at, value in steps))


def test_run_time_follows_from_work_and_curve() -> None:
    assert [job().seconds_on(count, "gpu") for count in (1, 2, 3, 4, 9)] == [
        math.inf, 10.0, pytest.approx(100 / 13), 6.25, 6.25,
    ]  # fmt: skip


def test_a_plan_costs_width_times_time() -> None:
    assert Plan(((0.0, 2), (10.0, 0), (30.0, 4)), 35.0).device_seconds() == 2 * 10 + 0 + 4 * 5
    assert Plan((), 0.0).device_seconds() == 0.0


def test_a_grant_is_as_wide_as_its_devices() -> None:
    assert Grant("j", "gpu", (3, 4, 8), nodes=2).width == 3
