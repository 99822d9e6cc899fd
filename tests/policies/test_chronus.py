"""Chronus: reservations in leases, soft deadlines of falling value, spot devices."""

import numpy as np
import pytest

from penstock.core import BestEffort, Curve, Deadline, Job, Strictness, ValueStep, Verdict, Work
from penstock.policies import Chronus, Standing
from penstock.policies.published.chronus import selection
from penstock.policies.published.chronus.leases import LeaseNeeds
from penstock.policies.published.chronus.policy import reservations, with_soft_jobs
from penstock.policies.published.chronus.reservations import NOBODY, Reservations
from penstock.policies.published.chronus.selection import Bundles, reselected
from penstock.scheduler.testing import PolicyConformance
from tests.policies.views import Row, view
from tests.simulate.build import by_name, run
from tests.tools.examples import examples

FOUR = Curve.from_table({4: 4.0})
TWO = Curve.from_table({2: 2.0})
LEASES = "chronus:lease_s=10,safety=1"


class TestShortLeases(PolicyConformance):
    """In the short worlds of the suite, leases of twenty minutes would promise nothing."""

    examples = examples(20)

    def make(self) -> Chronus:
        return Chronus(lease_s=4.0)


def gang(name: str, seconds: float, at: float = 0.0, due: float | None = None, *then: tuple[float, float]) -> Job:
    """A job on exactly four devices."""
    steps = tuple(ValueStep(until, value) for until, value in then)
    goal = BestEffort() if due is None else Deadline(due, Strictness.SOFT if then else Strictness.HARD, steps)
    return Job(
        id=name, work=Work(4 * seconds), curve=FOUR, goal=goal, submitted_at=at, requested=4, at_least=4, at_most=4
    )


def row(seconds: float, due: float, *then: tuple[float, float], width: int = 2, **more: object) -> Row:
    curve = {2: TWO, 4: FOUR}[width]
    return Row(work=width * seconds, curve=curve, due=due, then=then, requested=width, **more)  # type: ignore[arg-type]


def test_a_reservation_leaves_the_near_future_to_short_jobs() -> None:
    result = run([gang("long", 30.0, 0.0, 100.0), gang("short", 5.0, 5.0)], policy=LEASES)
    found = by_name(result)
    assert found["long"].promised
    assert found["short"].finished_at == 15.0, "it takes over when the lease ends"
    assert found["long"].finished_at == 35.0, "and gives way again at once, since nobody else waits"


def test_a_short_job_does_not_take_what_is_reserved() -> None:
    found = by_name(run([gang("long", 30.0, 0.0, 30.0), gang("short", 5.0, 5.0)], policy=LEASES))
    assert (found["long"].finished_at, found["short"].finished_at) == (30.0, 35.0)


def test_who_finds_no_leases_is_asked_again_and_runs_on_what_is_left() -> None:
    jobs = [gang("first", 30.0, 0.0, 40.0), gang("second", 20.0, 0.0, 45.0), gang("free", 50.0, 0.0)]
    found = by_name(run(jobs, policy=LEASES))
    assert (found["first"].promised, found["first"].finished_at) == (True, 40.0)
    assert not found["second"].promised
    assert found["second"].started_at == 0.0, "shorter than the first, which need not begin yet"
    assert (found["free"].finished_at, found["second"].finished_at) == (90.0, 100.0), "it can no longer be in time"


def test_whose_result_is_worthless_comes_after_everybody_else() -> None:
    found = by_name(run([gang("late", 20.0, 0.0, 10.0), gang("free", 100.0, 0.0)], policy=LEASES))
    assert (found["free"].finished_at, found["late"].finished_at) == (100.0, 120.0)


def test_who_cannot_wait_for_the_boundary_takes_the_place_of_a_costlier_job() -> None:
    found = by_name(run([gang("free", 100.0, 0.0), gang("now", 12.0, 3.0, 16.0)], policy=LEASES))
    assert found["now"].finished_at == 15.0
    assert found["free"].finished_at == 112.0


def test_quotes_say_what_a_soft_job_is_still_worth() -> None:
    soft = row(20.0, 30.0, (45.0, 0.5), width=4, standing=Standing.UNANSWERED)
    world = view(row(20.0, 20.0, width=4, standing=Standing.PROMISED), soft)
    (quote,) = Chronus(lease_s=10.0, safety=1.0).admit(world, np.array([1]))
    assert quote is not None
    assert quote.verdict is Verdict.BEST_EFFORT
    assert "worth 100% if it begins now, 20s from now" in quote.reason


def test_a_soft_job_reserves_for_the_best_deadline_it_finds_leases_for() -> None:
    world = view(
        row(20.0, 20.0, width=4, standing=Standing.PROMISED), row(20.0, 30.0, (40.0, 0.5), (90.0, 0.2), width=4)
    )
    needs = LeaseNeeds.of(world, 10.0, 1.0)
    held = with_soft_jobs(world, needs, reservations(world, needs))
    assert held.step.tolist() == [0, 1]
    assert held.taken[:, :4].tolist() == [[True, True, False, False], [False, False, True, True]]
    plans = held.plans(world, needs.clock)
    assert plans.at[1, :2].tolist() == [20.0, 40.0]
    assert plans.width[1, :2].tolist() == [4, 0]


def test_the_program_moves_soft_jobs_to_deadlines_worth_more() -> None:
    pytest.importorskip("scipy")
    two_steps = ((40.0, 0.5), (80.0, 0.2))
    world = view(*(row(20.0, 20.0, *two_steps) for _ in range(3)))
    needs = LeaseNeeds.of(world, 10.0, 1.0)
    late = np.array([2, 2, 2])
    held = Reservations.none(world, int(needs.until.max()) + 1).afresh(world, needs, late)
    assert held is not None
    better = reselected(world, needs, held, leave_room=True)
    worth = np.sort(world.step_value[np.arange(3), better.step])[::-1]
    assert worth.tolist() == [1.0, 1.0, 0.5], "two fit before the first deadline, the third before the next"
    assert (better.free >= 0).all()
    again = reselected(world, needs, held, leave_room=True)
    assert np.array_equal(again.taken, better.taken)


def test_without_a_solver_the_greedy_placement_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection.importlib.util, "find_spec", lambda _: None)
    world = view(row(20.0, 20.0, (40.0, 0.5)))
    needs = LeaseNeeds.of(world, 10.0, 1.0)
    held = Reservations.none(world, int(needs.until.max()) + 1).afresh(world, needs, np.array([1]))
    assert held is not None
    assert reselected(world, needs, held, leave_room=False).step.tolist() == [1]


def test_everybody_is_placed_afresh_when_one_more_does_not_fit_beside() -> None:
    world = view(row(10.0, 40.0, plan=((20.0, 2), (30.0, 0))), row(30.0, 30.0, width=4))
    needs = LeaseNeeds.of(world, 10.0, 1.0)
    held = Reservations.kept(world, needs)
    assert held.step.tolist() == [0, NOBODY]
    assert held.with_row(world, needs, 1, np.array([0])) is None
    both = held.joined(world, needs, 1)
    assert both is not None
    assert both.taken[:, :4].tolist() == [[False, False, False, True], [True, True, True, False]]


def test_a_reservation_that_comes_too_late_is_dropped() -> None:
    world = view(row(20.0, 40.0, plan=((30.0, 2), (40.0, 0))), now=1.0)
    assert Reservations.kept(world, LeaseNeeds.of(world, 10.0, 1.0)).step.tolist() == [NOBODY]


def test_bundles_grow_with_the_distance() -> None:
    bundles = Bundles.of(20)
    assert bundles.first.tolist() == [0, 1, 2, 3, 4, 6, 9, 13, 19, 20]
    assert bundles.inside(10).tolist() == [1, 1, 1, 1, 2, 3, 1, 0, 0]
    assert bundles.sizes.sum() == 20
