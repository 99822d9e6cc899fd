"""The default: cheap promises first, deferred answers, overhead counted in, nobody disturbed without need."""

import math

import numpy as np
import pytest

from penstock.core import (
    Costs,
    Curve,
    Deadline,
    JobSubmitted,
    Overhead,
    Progress,
    Quote,
    Span,
    Strictness,
    Tick,
    Verdict,
    Wake,
)
from penstock.policies import Standing, policy_named
from penstock.scheduler import ExpectedCosts, JobState, Scheduler
from penstock.scheduler.testing import CheckedWorld
from tests.policies.views import Row, whole_view
from tests.scheduler.build import job, kinds, scheduler


def ask(*rows: Row, capacity: int = 4, slot: float = 0.0, overhead: Overhead | None = None) -> list[Quote]:
    world = whole_view(*rows, capacity=capacity, slot=slot, overhead=overhead or Overhead())
    return list(policy_named("deadline").admit(world, np.flatnonzero(world.standing == Standing.UNANSWERED)))


def quote(machine: Scheduler, name: str) -> Quote:
    found = machine.quote_of(name)
    assert found is not None
    return found


def test_in_a_burst_the_cheap_jobs_are_promised_first() -> None:
    burst = [Row(work=work, due=100.0, standing=0) for work in (90.0, 50.0, 40.0)]
    assert [q.verdict for q in ask(*burst, capacity=1)] == [Verdict.DEFERRED, Verdict.PROMISED, Verdict.PROMISED]


def test_answers_come_in_the_order_of_the_rows() -> None:
    burst = [Row(work=work, due=1000.0, standing=0) for work in (90.0, 20.0, 40.0)]
    assert [q.job_id for q in ask(*burst)] == ["job-0", "job-1", "job-2"]


def test_cheap_means_device_seconds_at_the_most_economical_width() -> None:
    costly = Row(work=60.0, curve=Curve.from_table({1: 0.5}), due=130.0, standing=0)
    cheap = Row(work=100.0, curve=Curve.from_table({1: 1.0}), due=130.0, standing=0)
    assert [q.verdict for q in ask(costly, cheap, capacity=1)] == [Verdict.DEFERRED, Verdict.PROMISED]


def test_an_earlier_promise_is_not_given_up_for_cheaper_jobs() -> None:
    promised = Row(work=90.0, due=100.0, standing=Standing.PROMISED)
    assert ask(promised, Row(work=20.0, due=100.0, standing=0), capacity=1)[0].verdict is Verdict.DEFERRED


def test_a_deferred_job_is_promised_when_room_appears_and_meets_its_deadline() -> None:
    machine = scheduler("1x1", "deadline")
    machine.handle(JobSubmitted(0.0, job("first", 100.0, goal=Deadline(100.0))))
    said = machine.handle(JobSubmitted(0.0, job("second", 50.0, goal=Deadline(120.0))))
    assert kinds(said)[0] == "Defer"
    deferred = quote(machine, "second")
    assert (deferred.verdict, deferred.answer_by) == (Verdict.DEFERRED, 70.0)
    assert deferred.counter_offer == pytest.approx(150.0)
    assert machine.state_of("second") is JobState.ASKING

    said = machine.handle(Progress(20.0, "first", 30.0))
    assert kinds(said)[0] == "Admit"
    assert (quote(machine, "second").verdict, quote(machine, "second").finish_at) == (
        Verdict.PROMISED, pytest.approx(100.0)
    )  # fmt: skip
    CheckedWorld(machine, held={"first": (0,)}, started={"first"}).run([], [])
    assert [machine.why(name).entries[-1].at for name in ("first", "second")] == [50.0, 100.0]


def test_a_deferred_job_runs_on_free_devices_meanwhile() -> None:
    machine = scheduler("1x2", "deadline")
    rigid = Curve.from_table({2: 2.0})
    machine.handle(JobSubmitted(0.0, job("first", 100.0, goal=Deadline(100.0), at_most=1)))
    machine.handle(JobSubmitted(0.0, job("second", 200.0, goal=Deadline(190.0), curve=rigid)))
    machine.handle(JobSubmitted(0.0, job("third", 100.0, goal=Deadline(150.0))))
    assert quote(machine, "second").verdict is Verdict.DEFERRED
    assert machine.devices_held() == 2
    assert machine.devices_of("third"), "it uses the device that the promises leave"


def test_a_deferred_job_gets_its_answer_by_the_time_it_was_told() -> None:
    machine = scheduler("1x1", "deadline")
    machine.handle(JobSubmitted(0.0, job("first", 1000.0, goal=Deadline(1000.0))))
    said = machine.handle(JobSubmitted(0.0, job("second", 100.0, goal=Deadline(400.0))))
    assert quote(machine, "second").answer_by == 300.0
    for _ in range(5):
        if machine.state_of("second") is JobState.ASKING:
            wake = next(each.at for each in said if isinstance(each, Wake))
            said = machine.handle(Tick(wake))
    assert machine.state_of("second") is JobState.DECLINED
    assert machine.now == pytest.approx(300.0, abs=1.0)


def test_a_hopeless_job_is_refused_at_once_with_what_could_be_kept() -> None:
    (hopeless,) = ask(Row(work=400.0, due=50.0, standing=0))
    assert (hopeless.verdict, hopeless.counter_offer, hopeless.offer_until) == (Verdict.REFUSED, 160.0, 60.0)
    assert hopeless.reason == "even alone on the cluster it would end 50s after its deadline"


def test_the_counter_offer_of_a_hopeless_job_waits_for_the_promises_made() -> None:
    promised = Row(work=400.0, due=100.0, standing=Standing.PROMISED)
    assert ask(promised, Row(work=400.0, due=50.0, standing=0))[0].counter_offer == pytest.approx(100.0 + 100.0)


def test_a_soft_deadline_that_cannot_be_promised_runs_at_best_effort() -> None:
    machine = scheduler("1x4", "deadline")
    machine.handle(JobSubmitted(0.0, job("soft", 400.0, goal=Deadline(50.0, Strictness.SOFT))))
    assert quote(machine, "soft").verdict is Verdict.BEST_EFFORT
    assert quote(machine, "soft").reason.endswith("it runs when it can")
    assert len(machine.devices_of("soft")) == 4


def test_a_soft_deadline_that_cannot_be_promised_says_what_it_is_still_worth() -> None:
    (answer,) = ask(Row(work=400.0, due=50.0, then=((120.0, 0.5),), standing=0))
    assert answer.verdict is Verdict.BEST_EFFORT
    assert answer.reason.endswith("when it surely could be done, it is worth 50% of its value; it runs when it can")


def test_a_soft_deadline_that_can_be_promised_is() -> None:
    assert ask(Row(due=200.0, soft=True, standing=0))[0].verdict is Verdict.PROMISED


@pytest.mark.parametrize(("due", "verdict"), [(114.0, Verdict.DEFERRED), (115.0, Verdict.PROMISED)])
def test_a_promise_keeps_the_worst_change_in_reserve(due: float, verdict: Verdict) -> None:
    overhead = Overhead(change_s=5.0, worst_s=10.0)
    (answer,) = ask(Row(work=100.0, due=due, standing=0), capacity=1, overhead=overhead)
    assert answer.verdict is verdict
    if verdict is Verdict.PROMISED:
        assert answer.finish_at == 105.0, "five seconds to start, and the work"
    else:
        assert answer.counter_offer == 115.0, "what would have been promised"


@pytest.mark.parametrize(
    ("due", "verdict", "end"),
    [(69.0, Verdict.REFUSED, math.inf), (70.0, Verdict.PROMISED, 70.0), (100.0, Verdict.PROMISED, 70.0),
     (200.0, Verdict.PROMISED, 190.0)],
)  # fmt: skip
def test_a_plan_that_begins_late_leaves_time_to_end(due: float, verdict: Verdict, end: float) -> None:
    """Forty seconds on four devices, or eighty on two, and thirty between the last step and the end; a cheaper job has
    no deadline."""
    machine = scheduler("1x4", "deadline")
    late = job("late", 160.0, costs=Costs(end=Span(30.0, 30.0)), goal=Deadline(due))
    machine.handle(JobSubmitted(0.0, job("cheap", 40.0)), JobSubmitted(0.0, late))
    assert (quote(machine, "late").verdict, quote(machine, "late").finish_at) == (verdict, end)


def test_a_promise_counts_on_a_decision_every_slot() -> None:
    overhead = Overhead(every_round_s=6.0)
    assert ask(Row(due=117.0, standing=0), capacity=1, slot=60.0, overhead=overhead)[0].verdict is Verdict.DEFERRED
    (answer,) = ask(Row(due=118.0, standing=0), capacity=1, slot=60.0, overhead=overhead)
    assert (answer.verdict, answer.finish_at) == (Verdict.PROMISED, pytest.approx(100 / 0.9))


def test_promises_are_kept_under_overhead_and_a_crowd() -> None:
    costs = ExpectedCosts(Overhead(every_round_s=1.0, change_s=3.0, per_doubling_s=2.0, worst_s=20.0))
    machine = scheduler("1x4", "deadline", slot=10.0, costs=costs)
    script = [
        JobSubmitted(7.0 * i, job(f"j{i}", 40.0 + 13 * (i % 4), goal=Deadline(7.0 * i + 120.0), submitted_at=7.0 * i))
        for i in range(20)
    ]
    CheckedWorld(machine).run(script, [event.at for event in script])
    promised = [event.job for event in script if quote(machine, event.job.id).verdict is Verdict.PROMISED]
    assert len(promised) >= 5
    assert all(machine.why(each.id).entries[-1].at <= each.deadline for each in promised)


def allocate(*rows: Row, capacity: int = 4, overhead: Overhead | None = None) -> list[int]:
    world = whole_view(*rows, capacity=capacity, overhead=overhead or Overhead())
    return policy_named("deadline").allocate(world).widths.tolist()


def test_nothing_idles_while_somebody_can_use_it() -> None:
    assert allocate(Row(due=1000.0, standing=Standing.PROMISED)) == [4]


def test_everybody_gets_a_first_share_before_anybody_a_second() -> None:
    assert allocate(*[Row(work=100.0 + i) for i in range(4)]) == [1, 1, 1, 1]


def test_a_job_keeps_what_it_holds_while_nobody_needs_it() -> None:
    relaxed = Row(due=1000.0, standing=Standing.PROMISED, width=2)
    other = Row(due=1000.0, standing=Standing.PROMISED, width=2, work=50.0)
    assert allocate(relaxed, other) == [2, 2]


def test_a_newcomer_takes_only_what_it_needs_from_one_job() -> None:
    holders = [Row(due=1000.0, standing=Standing.PROMISED, width=2, work=100.0 + i) for i in range(2)]
    widths = allocate(*holders, Row(work=500.0))
    assert widths[2] == 1
    assert sorted(widths[:2]) == [1, 2], "one of the two gives, the other is left alone"


def test_growing_must_earn_back_its_pause() -> None:
    pause = Overhead(change_s=30.0)
    assert allocate(Row(work=100.0, width=1), capacity=2, overhead=pause) == [2], "50 s saved for a pause of 30 s"
    assert allocate(Row(work=100.0, left=50.0, width=1), capacity=2, overhead=pause) == [1], "25 s saved"


def test_idle_devices_go_where_they_add_most_speed() -> None:
    good, poor = Curve.from_table({1: 1.0, 2: 1.9}), Curve.from_table({1: 1.0, 2: 1.2})
    assert allocate(Row(curve=poor, width=1), Row(curve=good, width=1), capacity=3) == [1, 2]


def test_a_calm_cluster_is_left_in_peace() -> None:
    machine = scheduler("1x4", "deadline", costs=ExpectedCosts(Overhead(change_s=5.0, worst_s=10.0)))
    machine.handle(JobSubmitted(0.0, job("a", 1000.0, at_most=2, goal=Deadline(5000.0))))
    machine.handle(JobSubmitted(10.0, job("b", 1000.0, at_most=2, goal=Deadline(5000.0), submitted_at=10.0)))
    held = machine.devices_of("a"), machine.devices_of("b")
    for number in range(5):
        said = machine.handle(Progress(20.0 + number, "a", machine.remaining("a") - 1.0))
        assert set(kinds(said)) <= {"Wake"}
    assert (machine.devices_of("a"), machine.devices_of("b")) == held


def test_it_wakes_when_the_plan_changes_a_width() -> None:
    tight, loose = Row(due=25.0, standing=Standing.PROMISED), Row(due=60.0, standing=Standing.PROMISED)
    decision = policy_named("deadline").allocate(whole_view(tight, loose))
    assert (decision.widths.tolist(), decision.wake_at) == ([4, 0], (pytest.approx(25.0),))
    assert policy_named("deadline").allocate(whole_view(Row())).wake_at == (math.inf,)
