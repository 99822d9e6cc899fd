"""Decide and apply, apart: whoever reads events and decisions has the state of whoever decided, bit for bit."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core import (
    FREE,
    Cluster,
    Costs,
    Deadline,
    Decision,
    Event,
    EventError,
    Grant,
    Instruction,
    JobFinished,
    JobSubmitted,
    NodeLost,
    Overhead,
    Quote,
    Span,
    Tick,
    Verdict,
    Wake,
    build,
    plain,
)
from penstock.policies import POLICIES, Allocation, KindPolicy, KindView, policy_named
from penstock.scheduler import ExpectedCosts, Scheduler
from penstock.scheduler.deciding import _kept_on
from penstock.scheduler.testing import clusters, scripts
from tests.scheduler.build import job, scheduler
from tests.tools.examples import examples

COSTLY = Overhead(every_round_s=1.0, change_s=3.0, per_doubling_s=2.0, worst_s=11.0)
every_policy = pytest.mark.parametrize("name", sorted(POLICIES))
slots = st.sampled_from([0.0, 1.0, 60.0])
quick = settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Unasked(KindPolicy):
    """Fails whoever asks it."""

    name = "unasked"
    summary = "nobody may ask"
    keeps_promises = True

    def admit(self, *_: Any) -> Any:
        raise AssertionError("a policy was asked while a log was read")

    def allocate(self, *_: Any) -> Allocation:
        raise AssertionError("a policy was asked while a log was read")


class NoCosts(ExpectedCosts):
    def pauses(self, *_: Any) -> Any:
        raise AssertionError("a cost model was asked while a log was read")


class NoPlacement:
    name = "none"
    summary = "nobody may ask"

    def place(self, *_: Any) -> Any:
        raise AssertionError("a placement was asked while a log was read")


def _through_json(decision: Decision) -> Decision:
    found = build(Decision, json.loads(json.dumps(plain(decision))))
    assert isinstance(found, Decision)
    return found


def _data(machine: Scheduler) -> Any:
    return json.dumps(machine.to_data(), sort_keys=True)


def _unfold(machine: Scheduler, script: list[Any], times: list[float]) -> Iterator[list[Event]]:
    """The script, with jobs that end as ``machine`` projects in between."""
    for at, entry in zip(times, script, strict=True):
        for _ in range(40):
            if machine.next_finish_at() > at:
                break
            first = max(machine.next_finish_at(), machine.now)
            yield [JobFinished(max(when, machine.now), name) for when, name in machine.finishing_by(first)]
        event = entry(machine, max(at, machine.now)) if callable(entry) else entry
        if event is not None and event.at >= machine.now:
            yield [event]


class Reader:
    """Takes decisions from a log; policy, placement and costs that it was given must not be asked."""

    def __init__(self, cluster: Cluster, slot: float, overhead: Overhead) -> None:
        self.machine = Scheduler(cluster, Unasked(), placement=NoPlacement(), costs=NoCosts(overhead), slot=slot)

    def read(self, events: list[Event], decision: Decision | None) -> list[Instruction]:
        for event in events:
            self.machine.apply(event)
        if decision is not None:
            self.machine.apply_decision(_through_json(decision))
        return self.machine.collect()


@every_policy
@quick
@given(data=st.data(), cluster=clusters(), slot=slots, overhead=st.sampled_from([FREE, COSTLY]))
def test_reading_events_and_decisions_gives_the_same_state(
    name: str, data: st.DataObject, cluster: Cluster, slot: float, overhead: Overhead
) -> None:
    script, times = data.draw(scripts(misfortunes=True))
    at_once = Scheduler(cluster, policy_named(name), slot=slot, costs=ExpectedCosts(overhead))
    apart = Scheduler(cluster, policy_named(name), slot=slot, costs=ExpectedCosts(overhead))
    reader = Reader(cluster, slot, overhead)
    for events in _unfold(at_once, script, times):
        told = at_once.handle(*events)
        for event in events:
            apart.apply(event)
        decision = apart.decide(apart.now) if apart.is_due else None
        if decision is not None:
            apart.apply_decision(decision)
        assert apart.collect() == told
        assert reader.read(events, decision) == told
        for each in at_once.active():
            at_once.remaining(each)
            at_once.why(each)
    state = at_once.to_data()
    assert apart.to_data() == state
    assert reader.machine.to_data() | {"promises_bind": state["promises_bind"]} == state
    for machine in (at_once, apart, reader.machine):
        machine._state.promises_bind = False
        machine._state.broken.clear()
        machine.validate()


@every_policy
@quick
@given(data=st.data(), cluster=clusters())
def test_a_state_written_and_read_goes_on_as_if_nothing_had_happened(
    name: str, data: st.DataObject, cluster: Cluster
) -> None:
    script, times = data.draw(scripts(misfortunes=True))
    whole = Scheduler(cluster, policy_named(name), slot=1.0)
    copied = Scheduler(cluster, policy_named(name), slot=1.0)
    for events in _unfold(whole, script, times):
        assert copied.handle(*events) == whole.handle(*events)
        written = json.loads(json.dumps(copied.to_data()))
        copied = Scheduler.from_data(written, policy_named(name))
        assert copied.to_data() == whole.to_data()


def test_deciding_changes_nothing() -> None:
    machine = scheduler("2x4", "deadline")
    machine.handle(JobSubmitted(0.0, job("a", 400.0, goal=Deadline(500.0))))
    machine.apply(JobSubmitted(10.0, job("b", 400.0, goal=Deadline(500.0), submitted_at=10.0)))
    before = _data(machine)
    assert machine.decide(10.0) == machine.decide(10.0)
    assert _data(machine) == before
    machine.validate()


def test_a_decision_says_only_what_changes() -> None:
    machine = scheduler("1x4", "fifo")
    machine.apply(JobSubmitted(0.0, job("a", requested=2)))
    first = machine.decide(0.0)
    assert [quote.job_id for quote in first.quotes] == ["a"]
    assert first.grants == (Grant("a", "gpu", (0, 1), 1),)
    machine.apply_decision(first)
    machine.apply(JobSubmitted(1.0, job("b", requested=2)))
    second = machine.decide(1.0)
    assert [grant.job_id for grant in second.grants] == ["b"]
    assert second.suspended == second.pauses == second.plans == second.rates == ()


def test_nothing_is_decided_before_it_is_due() -> None:
    machine = scheduler("1x4", "fifo", slot=60.0)
    machine.handle(JobSubmitted(0.0, job("a")))
    machine.apply(JobSubmitted(10.0, job("b")))
    assert machine.due_at == 60.0
    assert not machine.is_due
    assert machine.decide(10.0).wake_at == ()
    assert machine.collect() == [Wake(60.0)]


class Failing(KindPolicy):
    name = "failing"
    summary = "fails when told to"
    fails = False

    def allocate(self, view: KindView) -> Allocation:
        if self.fails:
            raise ZeroDivisionError("a fault in the policy")
        return Allocation(view.requested.copy())


@pytest.mark.parametrize(("at", "due"), [(4.0, math.inf), (5.0, math.inf), (5.5, 5.5)])
def test_a_policy_is_woken_later_and_never_at_the_same_moment_again(at: float, due: float) -> None:
    class Restless(KindPolicy):
        name = "restless"
        summary = "wants to decide again"

        def allocate(self, view: KindView) -> Allocation:
            return Allocation(view.requested.copy(), wake_at=at)

    machine = Scheduler(Cluster.parse("1x4"), Restless())
    machine.handle(JobSubmitted(5.0, job("a")))
    assert machine.due_at == due


def test_a_policy_that_fails_leaves_the_state_as_it_was() -> None:
    policy = Failing()
    machine = Scheduler(Cluster.parse("1x4"), policy)
    machine.handle(JobSubmitted(0.0, job("a", requested=2)))
    machine.apply(JobSubmitted(5.0, job("b", requested=2)))
    before = _data(machine)
    policy.fails = True
    with pytest.raises(ZeroDivisionError):
        machine.decide(5.0)
    assert _data(machine) == before
    with pytest.raises(ZeroDivisionError):
        machine.handle()
    assert _data(machine) == before
    policy.fails = False
    assert machine.handle(Tick(6.0))
    machine.validate()


class FailingPlacement:
    """Places half of it, then fails."""

    name = "failing"
    summary = "fails in the middle"

    def place(self, occupancy: Any, asks: Any) -> Any:
        occupancy.release(asks[0].key)
        occupancy.take(asks[0].key, (3,))
        raise ZeroDivisionError("a fault in the placement")


def test_a_placement_that_fails_leaves_the_state_as_it_was() -> None:
    machine = scheduler("1x4+1x2xB", "fifo", placement=FailingPlacement())
    machine.apply(JobSubmitted(0.0, job("a", requested=2)))
    before = _data(machine)
    with pytest.raises(ZeroDivisionError):
        machine.handle()
    assert _data(machine) == before
    machine.validate()


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (Decision(at=-1.0, wake_at=()), "a decision happened before 1.0"),
        (Decision(at=1.0, wake_at=(("npu", 9.0),)), "npu"),
        (Decision(at=1.0, wake_at=(("gpu", 9.0),), suspended=("nobody",)), "nobody"),
        (Decision(at=1.0, wake_at=(), suspended=("a",)), "names job 'a' but does not decide about gpu"),
        (Decision(at=1.0, wake_at=(("gpu", 9.0),), grants=(Grant("b", "gpu", (0, 1), 1),)), "takes"),
        (Decision(at=1.0, wake_at=(("gpu", 9.0),), suspended=("done",)), "job 'done' is finished"),
        (Decision(at=1.0, wake_at=(("gpu", 9.0),), plans=(("a", ((0.0, 1),) * 17),)), "a plan of 17 steps"),
    ],
)
def test_a_decision_that_does_not_fit_is_refused_and_changes_nothing(decision: Decision, message: str) -> None:
    machine = scheduler("1x4", "fifo")
    machine.handle(JobSubmitted(0.0, job("done")))
    asking = [JobSubmitted(1.0, job("a", requested=3)), JobSubmitted(1.0, job("b", requested=4))]
    machine.handle(JobFinished(1.0, "done"), *asking)
    before = _data(machine)
    with pytest.raises(EventError, match=message):
        machine.apply_decision(decision)
    assert _data(machine) == before
    machine.validate()


def test_reading_a_lot_alters_no_number() -> None:
    quiet, curious = scheduler("1x4", "edf"), scheduler("1x4", "edf")
    for machine in (quiet, curious):
        machine.handle(JobSubmitted(0.0, job("a", 977.0)), JobSubmitted(0.1, job("b", 313.0)))
    for step in range(1, 50):
        curious.apply(Tick(step * 0.7))
        curious.remaining("a")
        curious.why("b")
        curious.validate()
        curious.backlog()
        quiet.apply(Tick(step * 0.7))
    for machine in (quiet, curious):
        machine.handle(NodeLost(36.0, "node-0"))
    assert curious.to_data() == quiet.to_data()


def test_the_backlog_counts_a_start_for_jobs_that_wait_and_what_is_left_of_one_for_those_that_run() -> None:
    machine = scheduler("1x1", "fifo")
    costs = Costs(start=Span(30.0, 30.0))
    for name, iterations in (("runs", 100.0), ("waits", 90.0)):
        machine.handle(JobSubmitted(0.0, job(name, iterations, costs=costs, at_most=1)))
    machine.apply(Tick(50.0))
    [found] = machine.backlog().values()
    assert {name: seconds for name, seconds, _ in found} == {"runs": 80.0, "waits": 120.0}


def test_data_of_another_version_is_refused() -> None:
    from penstock.core import CodecError

    with pytest.raises(CodecError, match="state of version 99; this version of Penstock reads 1"):
        Scheduler.from_data({"version": 99}, policy_named("fifo"))
    with pytest.raises(CodecError, match="not the state of a scheduler"):
        Scheduler.from_data({"version": 1}, policy_named("fifo"))


def test_a_state_with_instructions_that_nobody_has_read_is_not_written() -> None:
    machine = scheduler()
    machine.handle(JobSubmitted(0.0, job("a")))
    machine.apply(NodeLost(1.0, "node-0"))
    with pytest.raises(EventError, match="1 instructions wait to be collected"):
        machine.to_data()


@pytest.mark.parametrize("verdict", list(Verdict))
def test_only_a_refusal_of_a_job_that_was_taken_in_before_becomes_best_effort(verdict: Verdict) -> None:
    answer = Quote(job_id="a", verdict=verdict, reason="too late", counter_offer=90.0)
    kept = _kept_on(answer)
    if verdict is not Verdict.REFUSED:
        assert kept is answer
        return
    assert (kept.verdict, kept.counter_offer) == (Verdict.BEST_EFFORT, 90.0)
    assert "cannot be promised: too late; it runs when it can" in kept.reason
