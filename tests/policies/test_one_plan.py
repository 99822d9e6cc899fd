"""One plan per decision: what admission lays out is what allocation carries out, within a stated tolerance."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from bench.tight_worlds import TIGHT_WORLDS

from penstock.core import Cluster, Deadline, JobSubmitted, Overhead, Quote, Verdict
from penstock.policies import Assignment, DeadlinePolicy, Ints, PlannedQuotes, View, allocate_lasting
from penstock.policies.columns import KEPT_WITHIN_S
from penstock.policies.deadline.calendar import finish_time
from penstock.scheduler import Scheduler
from tests.policies.views import Row, whole_view
from tests.scheduler.build import job

PROMISED, DEFERRED = 3, 1


class Spy(DeadlinePolicy):
    """Writes down what admission laid out and what allocation was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.laid_out: dict[str, list[float]] = {}
        self.shown: dict[str, list[float]] = {}
        self.late: list[str] = []

    def admit(self, view: View, rows: Ints) -> Sequence[Quote | None]:
        quotes = super().admit(view, rows)
        if (plans := PlannedQuotes.plans_of(quotes)) is not None:
            self.laid_out = {each.id: plans.at[row].tolist() for row, each in enumerate(view.jobs)}
        return quotes

    def allocate(self, view: View) -> Assignment:
        assert view.is_planned
        self.shown = {each.id: view.plan_at[row].tolist() for row, each in enumerate(view.jobs)}
        return super().allocate(view)


def test_allocation_sees_the_plans_of_admission_by_job_although_rejected_jobs_leave_in_between() -> None:
    """The plan of a job that was deferred until now, and prices that the rejected jobs moved, play no part in it."""
    spy = Spy()
    machine = Scheduler(Cluster.parse("1x2"), spy)
    machine.handle(
        JobSubmitted(0.0, job("hopeless", goal=Deadline(1.0))), JobSubmitted(0.0, job("a", 40.0, goal=Deadline(40.0))),
        JobSubmitted(0.0, job("too late", goal=Deadline(2.0))), JobSubmitted(0.0, job("b", 50.0, goal=Deadline(90.0))),
        JobSubmitted(0.0, job("waits", 170.0, goal=Deadline(100.0))),
    )  # fmt: skip
    assert sorted(spy.shown) == ["a", "b", "waits"]
    assert spy.shown == {name: spy.laid_out[name] for name in spy.shown}
    assert all(np.isfinite(spy.shown[name][0]) for name in "ab")


def told(view: View, rows: list[int], policy: DeadlinePolicy) -> View:
    """The view after its answers, as a decision makes it."""
    quotes = policy.admit(view, np.array(rows))
    standing = view.standing.copy()
    standing[[row for row, quote in zip(rows, quotes, strict=True) if quote and quote.verdict is Verdict.PROMISED]] = 3
    return view.told(standing, PlannedQuotes.plans_of(quotes))


def test_a_deferred_jobs_old_plan_is_not_taken_for_a_promise() -> None:
    """Two jobs are promised side by side; the plan that one of them had while it was deferred takes every device."""
    view = whole_view(
        Row(work=50.0, due=50.0, standing=0),
        Row(work=50.0, due=60.0, standing=DEFERRED, plan=((0.0, 2), (25.0, 0))), capacity=2,
    )  # fmt: skip
    policy = DeadlinePolicy(at_once=9.0)
    after = told(view, [0, 1], policy)
    assert after.plan_width[1].max() == 1
    decided = policy.allocate(after)
    assert (len(decided.late), decided.widths.tolist()) == (0, [1, 1])


@pytest.mark.parametrize(("late_s", "kept"), [(0.0, True), (0.9 * KEPT_WITHIN_S, True), (3 * KEPT_WITHIN_S, False)])
def test_a_plan_that_ends_at_its_limit_is_kept_within_the_tolerance(late_s: float, kept: bool) -> None:
    """With slot 0 a plan may end exactly at its limit, and the next sum of the same durations is another."""
    row = Row(work=100.0, left=50.0 + late_s, due=50.0, standing=PROMISED, width=1, plan=((-50.0, 1), (50.0 + 1e-6, 0)))
    other = Row(work=100.0, due=60.0, standing=DEFERRED, curve=row.curve)
    decided = DeadlinePolicy().allocate(whole_view(replace(row, at_most=1), replace(other, at_most=1), capacity=1))
    assert (len(decided.late) == 0) is kept
    assert decided.widths[0] == 1


def test_a_promise_is_not_given_up_for_another_though_as_many_are_late() -> None:
    """The guard against stopping too soon compares which promises are missed, not how many."""
    view = whole_view(
        Row(work=100.0, due=50.0, standing=PROMISED), Row(work=100.0, due=50.0, standing=PROMISED),
        Row(standing=2, width=1), capacity=1, overhead=Overhead(change_s=10.0, worst_s=10.0),
    )  # fmt: skip
    first = Assignment(view.bound, np.array([1, 0, 0]), (np.inf,), missed=np.array([False, True, False]))

    def allocate(part: View) -> Assignment:
        if len(part) == len(view):
            return first
        return Assignment(part.bound, np.array([0, 0]), (np.inf,), missed=np.array([True, False]))

    assert allocate_lasting(allocate, view, 4.0) is first
    assert not replace(first, missed=np.array([True, False, False])).keeps_promises_of(first)
    assert replace(first, missed=None).keeps_promises_of(first)


def test_a_long_job_that_would_take_most_of_all_device_time_is_answered_later() -> None:
    hour = 3600.0
    view = whole_view(Row(work=90 * hour, due=100 * hour, standing=0), Row(work=hour, due=1.2 * hour, standing=0),
                      capacity=1)  # fmt: skip
    verdicts = [
        [quote.verdict for quote in policy.admit(view, np.array([0, 1])) if quote]
        for policy in (DeadlinePolicy(), DeadlinePolicy(large=9.0))
    ]
    assert verdicts[0] == [Verdict.DEFERRED, Verdict.PROMISED]
    assert Verdict.PROMISED in verdicts[1]
    short = whole_view(Row(work=hour, due=1.2 * hour, standing=0), capacity=1)
    (quote,) = DeadlinePolicy().admit(short, np.array([0]))
    assert quote is not None
    assert quote.verdict is Verdict.PROMISED, "five sixths of one device, but not for long"


@pytest.mark.parametrize("policy", ["deadline", "unified"])
@pytest.mark.parametrize("name", [
    "exact run time", "tight, three kinds, bursts", "offers accepted after 30 s", "quotas, offers accepted at once",
    "leases, some not resumable", "leased from the start, some confined", "users edit, pause, cancel",
])  # fmt: skip
def test_no_promise_is_broken_in_tight_worlds(name: str, policy: str) -> None:
    """By independent books; ``make bench-promises`` plays many more seeds of many more worlds."""
    world = next(world for world in TIGHT_WORLDS if world.name == name)
    books = replace(world, mix=replace(world.mix, count=60)).play(2, policy)
    assert books.promises > 20
    assert [(entry.job.id, entry.finished_at - entry.deadline) for entry in books.broken] == []
    assert all(entry.is_promised for entry in books.accepted)
    assert books.problems == []


def test_a_short_peak_is_no_part_of_a_plan() -> None:
    """Thirteen devices for one slot cost the pause of two changes, and no plan had counted on that."""
    world = next(world for world in TIGHT_WORLDS if world.name == "offers accepted after 30 s, dear")
    assert [entry.job.id for entry in world.play(2006, "deadline").broken] == []


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("leases, some not resumable", 50_006), ("leases, some not resumable", 50_015),
        ("leased from the start, some not resumable", 70_006),
    ],
)  # fmt: skip
def test_jobs_that_cannot_resume_are_placed_on_nodes_that_stay(name: str, seed: int) -> None:
    """They were placed anywhere, others moved there, and of two one took the place of the other."""
    world = next(world for world in TIGHT_WORLDS if world.name == name)
    assert [entry.job.id for entry in world.play(seed, "deadline").broken] == []


def test_a_change_that_comes_late_in_a_pause_makes_it_longer() -> None:
    """A job stands still until 31; what it is to hold from 8 on a decision may give it as late as 18."""
    times, free, levels = np.array([0.0, 8.0]), np.array([3, 2]), np.array([2, 3])
    rates, pauses = np.array([2.0, 3.0]), np.array([26.0, 26.0])
    found = finish_time(times, free, 2, levels, rates, pauses, 0.0, 2, 1, 3, 31.0, 20.0, -1.0, math.inf, 10.0)
    assert found == 18.0 + 26.0 + 20.0 / 2.0
