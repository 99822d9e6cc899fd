"""A promise holds against whoever comes later; only what lies outside the policy excuses a broken one."""

import numpy as np
import pytest

from penstock.core import (
    Cluster,
    Curve,
    CurveChanged,
    Deadline,
    Event,
    InvariantError,
    JobFinished,
    JobSubmitted,
    NodeLost,
    Overhead,
    Progress,
    Quote,
    Verdict,
    WorkerFailed,
)
from penstock.policies import Allocation, Ints, KindPolicy, KindView
from penstock.scheduler import ExpectedCosts, JobState, Scheduler
from penstock.scheduler.testing import CheckedWorld
from tests.scheduler.build import job, scheduler


class Boaster(KindPolicy):
    """Promises every deadline and gives everybody one device."""

    name = "boaster"
    summary = "promises what it does not keep"

    def admit(self, view: KindView, rows: Ints) -> list[Quote]:
        return [Quote(job_id=view.jobs[row].id, verdict=Verdict.PROMISED, reason="sure!") for row in rows]

    def allocate(self, view: KindView) -> Allocation:
        return Allocation(np.ones(len(view), dtype=np.int64))


def boast(**options: object) -> Scheduler:
    """A job promised for time 60 that takes until 100 on the one device it gets."""
    machine = Scheduler(Cluster.parse("2x2"), Boaster(), **options)  # type: ignore[arg-type]
    machine.handle(JobSubmitted(0.0, job("a", goal=Deadline(60.0))))
    return machine


@pytest.mark.parametrize("policy", ["elasticflow", "edf-admission", "deadline"])
def test_a_promised_job_is_protected_from_later_arrivals(policy: str) -> None:
    machine = scheduler("1x2", policy)
    script: list[Event] = [JobSubmitted(0.0, job("first", goal=Deadline(55.0)))]
    for number in range(1, 8):
        crowd = job(f"later-{number}", 30.0, goal=Deadline(5.0 * number + 60.0), submitted_at=5.0 * number)
        script.append(JobSubmitted(5.0 * number, crowd))
    script.append(JobSubmitted(36.0, job("best-effort", submitted_at=36.0)))
    CheckedWorld(machine).run(script, [event.at for event in script])
    promised = [
        event.job for event in script if (quote := machine.quote_of(event.job.id)) and quote.verdict == "promised"
    ]
    assert "first" in {each.id for each in promised}
    for each in promised:
        assert machine.why(each.id).entries[-1].text == "finished"
        assert machine.why(each.id).entries[-1].at <= each.deadline + 1e-6


@pytest.mark.parametrize("policy", ["elasticflow", "edf-admission"])
def test_a_later_job_that_would_break_a_promise_is_refused(policy: str) -> None:
    machine = scheduler("1x2", policy)
    machine.handle(JobSubmitted(0.0, job("first", goal=Deadline(50.0))))
    machine.handle(JobSubmitted(10.0, job("second", 50.0, goal=Deadline(50.0), submitted_at=10.0)))
    quote = machine.quote_of("second")
    assert quote is not None
    assert quote.verdict is Verdict.REFUSED
    assert quote.reason == "finishing it in time would break promises already made"
    assert quote.counter_offer == 50 + 50 / 2
    assert machine.devices_of("first") == (0, 1)


def test_a_counter_offer_is_accepted_when_it_is_asked_for() -> None:
    machine = scheduler("1x2", "elasticflow")
    machine.handle(JobSubmitted(0.0, job("first", goal=Deadline(50.0))))
    machine.handle(JobSubmitted(10.0, job("second", 50.0, goal=Deadline(50.0), submitted_at=10.0)))
    offer = machine.quote_of("second").counter_offer  # type: ignore[union-attr]
    machine.handle(JobSubmitted(10.0, job("again", 50.0, goal=Deadline(offer), submitted_at=10.0)))
    quote = machine.quote_of("again")
    assert quote is not None
    assert (quote.verdict, quote.finish_at) == (Verdict.PROMISED, 75.0)


def test_a_promise_that_can_no_longer_be_kept_is_noticed() -> None:
    machine = Scheduler(Cluster.parse("1x2"), Boaster())
    machine.handle(JobSubmitted(0.0, job("a", goal=Deadline(60.0))))
    machine.validate()
    machine.handle(JobSubmitted(15.0, job("b", 1.0, goal=Deadline(90.0))))
    machine.validate()
    machine.handle(JobFinished(25.0, "b"))
    with pytest.raises(InvariantError, match="the promised deadline of job 'a' can no longer be met"):
        machine.validate()


def test_a_broken_promise_without_an_excuse_is_our_bug() -> None:
    machine = boast()
    machine.handle(JobFinished(100.0, "a"))
    assert machine.state_of("a") is JobState.FINISHED
    with pytest.raises(InvariantError, match=r"promised deadlines missed without an outside cause: a by 40s"):
        machine.validate()


def test_a_promise_kept_to_the_millisecond_is_kept() -> None:
    machine = boast()
    machine.handle(JobFinished(60.0005, "a"))
    machine.validate()


@pytest.mark.parametrize(
    "event",
    [
        NodeLost(10.0, "node-1"),
        WorkerFailed(10.0, "a"),
        Progress(10.0, "a", 95.0),
        CurveChanged(10.0, "a", Curve.from_table({1: 0.9})),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_comes_from_outside_excuses(event: Event) -> None:
    machine = boast()
    machine.handle(event)
    machine.validate()
    machine.handle(JobFinished(130.0, "a"))
    machine.validate()


def test_good_news_is_no_excuse() -> None:
    machine = boast()
    machine.handle(Progress(10.0, "a", 85.0))
    machine.handle(JobFinished(95.0, "a"))
    with pytest.raises(InvariantError, match="a by 35s"):
        machine.validate()


def test_a_loss_excuses_only_promises_made_before() -> None:
    machine = boast()
    machine.handle(NodeLost(10.0, "node-1"))
    machine.handle(JobSubmitted(20.0, job("b", goal=Deadline(80.0), submitted_at=20.0)))
    machine.handle(JobFinished(100.0, "a"))
    machine.handle(JobFinished(120.0, "b"))
    with pytest.raises(InvariantError, match=r"cause: b by 40s$"):
        machine.validate()


def test_a_promise_that_ignores_overhead_binds_only_where_there_is_none() -> None:
    machine = boast(costs=ExpectedCosts(Overhead(change_s=5.0)))
    machine.handle(JobFinished(105.0, "a"))
    machine.validate()


def test_a_promise_that_counts_on_overhead_binds_where_there_is_some() -> None:
    class Careful(Boaster):
        overhead_proof = True

    machine = Scheduler(Cluster.parse("2x2"), Careful(), costs=ExpectedCosts(Overhead(change_s=5.0)))
    machine.handle(JobSubmitted(0.0, job("a", goal=Deadline(60.0))))
    machine.handle(JobFinished(105.0, "a"))
    with pytest.raises(InvariantError, match="a by 45s"):
        machine.validate()


@pytest.mark.parametrize("widths", [[5], [1, 1], [3]])
def test_a_policy_that_grants_what_is_not_there_is_stopped(widths: list[int]) -> None:
    class Wrong(KindPolicy):
        name = "wrong"
        summary = "grants nonsense"

        def allocate(self, view: KindView) -> Allocation:
            return Allocation(np.array(widths), wake_at=view.now)

    machine = Scheduler(Cluster.parse("1x4"), Wrong())
    with pytest.raises(InvariantError, match=r"5 devices granted, 4 exist|shape \(2,\)|'a' cannot use 3 devices"):
        machine.handle(JobSubmitted(0.0, job("a")))
