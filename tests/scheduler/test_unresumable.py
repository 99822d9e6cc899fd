"""Jobs that cannot resume: what they hold stays theirs unless a promise to somebody else needs it."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core import (
    Cluster,
    Costs,
    Curve,
    Deadline,
    JobFinished,
    JobPaused,
    JobResumed,
    JobSubmitted,
    Progress,
    ResumableChanged,
    Span,
    Suspend,
    Tick,
    Verdict,
    WorkerFailed,
)
from penstock.policies import POLICIES, policy_named
from penstock.scheduler import JobState, Scheduler
from penstock.scheduler.testing import CheckedWorld, clusters, scripts
from penstock.scheduler.testing.strategies import ScriptEntry
from tests.scheduler.build import grants, job, kinds, scheduler
from tests.tools.examples import examples

SLOTS = st.sampled_from([0.0, 1.0, 60.0])
FLAT = Curve.from_table({1: 1.0, 2: 1.0})


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_short_jobs_that_come_by_do_not_restart_it(policy: str) -> None:
    machine = scheduler("1x2", policy)
    machine.handle(JobSubmitted(0.0, job("plain", 60.0, curve=FLAT, resumable=False)))
    held = machine.devices_of("plain")
    assert held
    for k in range(1, 11):
        sent = machine.handle(JobSubmitted(5.0 * k, job(f"short-{k}", 5.0, submitted_at=5.0 * k)))
        machine.validate()
        assert Suspend("plain") not in sent
        assert "plain" not in grants(sent)
        ended = [JobFinished(at, name) for at, name in machine.finishing_by(5.0 * k + 4.9)]
        machine.handle(*ended, Tick(5.0 * k + 4.9))
    assert machine.devices_of("plain") == held
    assert machine.remaining("plain", 60.0) == pytest.approx(0.0, abs=1e-6)


def test_it_does_not_grow_when_devices_become_free() -> None:
    machine = scheduler("1x4", "deadline")
    machine.handle(JobSubmitted(0.0, job("other", 10.0)), JobSubmitted(0.0, job("plain", 100.0, resumable=False)))
    before = machine.devices_of("plain")
    machine.handle(JobFinished(10.0, "other"))
    assert machine.devices_of("plain") == before
    machine.handle(ResumableChanged(11.0, "plain", resumable=True))
    assert len(machine.devices_of("plain")) == 4
    assert machine.remaining("plain") == pytest.approx(100.0 - 11.0 * len(before))


def test_a_promise_may_interrupt_it_and_then_it_begins_again() -> None:
    machine = scheduler("1x4", "deadline")
    machine.handle(JobSubmitted(0.0, job("plain", 1000.0, at_least=4, resumable=False)))
    sent = machine.handle(JobSubmitted(50.0, job("due", 400.0, submitted_at=50.0, goal=Deadline(151.0))))
    quote = machine.quote_of("due")
    assert quote is not None
    assert quote.verdict is Verdict.PROMISED
    assert "Suspend" in kinds(sent)
    assert machine.remaining("plain") == 1000.0
    story = " ".join(entry.text for entry in machine.why("plain").entries)
    assert "50s of work (200 iterations) are lost" in story
    machine.handle(JobFinished(150.0, "due"))
    machine.validate()
    assert machine.remaining("plain", 151.0) == pytest.approx(996.0)


def test_a_promise_goes_around_it_where_that_is_in_time() -> None:
    machine = scheduler("1x4", "deadline")
    machine.handle(JobSubmitted(0.0, job("plain", 1000.0, at_most=2, resumable=False)))
    held = machine.devices_of("plain")
    machine.handle(JobSubmitted(50.0, job("due", 400.0, submitted_at=50.0, goal=Deadline(300.0))))
    quote = machine.quote_of("due")
    assert quote is not None
    assert quote.verdict is Verdict.PROMISED
    assert machine.devices_of("plain") == held
    assert len(machine.devices_of("due")) == 2


def test_no_more_of_them_are_interrupted_than_a_promise_takes() -> None:
    machine = scheduler("1x4", "deadline")
    for k in range(4):
        machine.handle(
            JobSubmitted(float(k), job(f"plain-{k}", 1000.0, at_most=1, submitted_at=float(k), resumable=False))
        )
    machine.handle(JobSubmitted(50.0, job("due", 100.0, submitted_at=50.0, goal=Deadline(160.0))))
    assert [machine.state_of(f"plain-{k}") for k in range(4)].count(JobState.SUSPENDED) == 1
    assert machine.state_of("plain-3") is JobState.SUSPENDED, "the one with the least behind it"


PAIRS = Curve.from_table({2: 2.0})


def test_the_ones_that_lose_least_are_interrupted_whenever_they_began() -> None:
    """What counts is the work that is done again, not how long a job has held devices in all its attempts."""
    machine = scheduler("1x4", "deadline")
    machine.handle(JobSubmitted(0.0, job("failed", 1000.0, curve=PAIRS, resumable=False)))
    machine.handle(JobSubmitted(10.0, job("steady", 1000.0, submitted_at=10.0, curve=PAIRS, resumable=False)))
    machine.handle(WorkerFailed(90.0, "failed"), Tick(90.0))
    due = job("due", 100.0, at_least=2, curve=PAIRS, submitted_at=100.0, goal=Deadline(160.0))
    machine.handle(JobSubmitted(100.0, due))
    assert machine.state_of("failed") is JobState.SUSPENDED, "it has 10 s behind it, the other one 90 s"
    assert machine.state_of("steady") is JobState.RUNNING


def test_one_that_loses_little_is_not_interrupted_in_vain() -> None:
    """The one with the least behind it makes too little room; it stays once another one is stopped."""
    machine = scheduler("1x4", "deadline")
    triple = Curve.from_table({3: 3.0})
    machine.handle(JobSubmitted(0.0, job("wide", 1e4, at_least=3, curve=triple, resumable=False)))
    machine.handle(JobSubmitted(90.0, job("short", 1e4, at_most=1, submitted_at=90.0, resumable=False)))
    machine.handle(JobSubmitted(95.0, job("cheap", 5.0, at_most=1, submitted_at=95.0)))
    due = job("due", 150.0, at_least=3, curve=triple, submitted_at=100.0, goal=Deadline(152.0))
    machine.handle(JobSubmitted(100.0, due))
    assert machine.devices_of("due")
    assert machine.state_of("wide") is JobState.SUSPENDED
    assert "are lost" not in str(machine.why("short"))


@pytest.mark.parametrize("policy", ["deadline", "unified"])
@pytest.mark.parametrize(
    ("start_s", "elastic_age", "elastic_due", "slack"),
    [(3.0, 4.0, 157.0, 1.0), (0.0, 40.0, 142.0, 1.0), (0.0, 4.0, 142.0, 20.0), (3.0, 4.0, 151.0, 6.0)],
)
def test_elastic_jobs_make_room_for_a_promise_before_one_that_cannot_resume(
    policy: str, start_s: float, elastic_age: float, elastic_due: float, slack: float
) -> None:
    """Four devices: one elastic job without a promise that may just have begun, one with a promise and time to spare,
    and a job of 100 s on two devices that is half done when another one needs two."""
    costs, machine = Costs(start=Span(start_s, start_s)), scheduler("1x4", policy)
    pair = {"at_least": 2, "at_most": 2, "curve": PAIRS, "resumable": False, "costs": costs}
    began, names = 48.0 - elastic_age, ["plain", "patient", "elastic", "due"]
    script = [
        job("plain", 200.0, **pair),
        job("patient", 87.0, at_most=1, submitted_at=1.0, costs=costs, goal=Deadline(elastic_due)),
        job("elastic", 300.0, at_most=1, submitted_at=began, costs=costs),
        job("due", 190.0, submitted_at=48.0, goal=Deadline(143.0 + slack + 2 * start_s), **pair),
    ]
    CheckedWorld(machine).run([JobSubmitted(each.submitted_at, each) for each in script], [0.0, 1.0, began, 48.0])
    assert [machine.quote_of(name).verdict for name in names[1::2]] == [Verdict.PROMISED] * 2  # type: ignore[union-attr]
    assert "are lost" not in str(machine.why("plain"))
    assert {machine.state_of(name) for name in names} == {JobState.FINISHED}


def test_a_plan_counts_the_start_that_a_change_in_the_middle_of_it_costs_again() -> None:
    """One device is free at once and the other 2.5 s later; growing then would cost the start of 3 s twice."""
    costs, machine = Costs(start=Span(3.0, 3.0)), scheduler("1x2", "deadline")
    first = job("first", 2.5, at_most=1, goal=Deadline(4.0))
    second = job("second", 240.0, at_most=2, costs=costs, goal=Deadline(125.0))
    CheckedWorld(machine).run([JobSubmitted(0.0, first), JobSubmitted(0.0, second)], [0.0, 0.0])
    assert machine.state_of("second") is JobState.DECLINED, "it ran without a promise until its deadline had passed"


@pytest.mark.parametrize("seed", range(24))
def test_promises_are_kept_where_every_start_costs_time(seed: int) -> None:
    """20 jobs on four devices, every third or so cannot resume; seed 7 begins a promised one of them on devices that
    half a second later are another job's by plan."""
    rng, at, script = random.Random(seed), 0.0, list[ScriptEntry]()
    machine = scheduler("1x4", "unified" if seed % 2 else "deadline", slot=rng.choice((0.0, 1.0)))
    for number in range(20):
        at += rng.choice((0.5, 4, 15, 40))
        start, width, is_plain = rng.choice((0.0, 3.0)), rng.choice((1, 1, 2, 2, 4)), rng.random() < 0.4
        work = rng.choice((20, 60, 120)) * float(width)
        wanted: dict[str, Any] = {"submitted_at": at, "costs": Costs(start=Span(start, start))}
        if is_plain:
            one = Curve.from_table({width: float(width)})
            wanted |= {"at_least": width, "at_most": width, "curve": one, "resumable": False}
        else:
            wanted |= {"at_most": rng.choice((1, 2, 4))}
        if rng.random() < 0.5:
            wanted |= {"goal": Deadline(at + work / width * rng.choice((1.3, 2, 4)) + 10)}
        script.append(JobSubmitted(at, job(f"{number}", work, **wanted)))
    CheckedWorld(machine).run(script, [entry.at for entry in script])  # type: ignore[union-attr]
    machine.validate()


def test_its_own_promise_counts_on_one_width() -> None:
    """Four devices for 20 s, then two: one that resumes is in time, one that begins again would not be."""
    machine = scheduler("1x4", "deadline")
    machine.handle(JobSubmitted(0.0, job("first", 200.0, at_least=4, at_most=4, goal=Deadline(51.0))))
    machine.handle(JobSubmitted(0.0, job("plain", 100.0, resumable=False, goal=Deadline(160.0))))
    quote = machine.quote_of("plain")
    assert quote is not None
    assert quote.verdict is Verdict.PROMISED
    CheckedWorld(machine, held={"first": machine.devices_of("first")}, started={"first"}).run([], [])
    machine.validate()
    assert machine.state_of("plain") is JobState.FINISHED


def test_reported_progress_is_lost_too() -> None:
    machine = scheduler("1x4", "fifo")
    machine.handle(JobSubmitted(0.0, job("plain", 100.0, resumable=False)))
    machine.handle(Progress(10.0, "plain", 40.0))
    machine.handle(WorkerFailed(20.0, "plain"))
    assert machine.remaining("plain") == 100.0
    machine.handle(JobPaused(30.0, "plain"))
    assert machine.remaining("plain") == 100.0
    machine.handle(JobResumed(40.0, "plain"), Tick(41.0))
    machine.validate()


def test_a_failed_worker_of_one_that_resumes_loses_little() -> None:
    machine = scheduler("1x4", "fifo")
    machine.handle(JobSubmitted(0.0, job("plain", 100.0, checkpoint_every_s=10.0)))
    machine.handle(WorkerFailed(25.0, "plain"))
    assert machine.remaining("plain") == pytest.approx(80.0)


@settings(max_examples=examples(20, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), cluster=clusters(), slot=SLOTS, share=st.integers(1, 3))
def test_promises_are_kept_among_jobs_that_cannot_resume(
    data: st.DataObject, cluster: Cluster, slot: float, share: int
) -> None:
    script, times = data.draw(scripts(misfortunes=False))
    script = [_unresumable(entry) if k % share == 0 else entry for k, entry in enumerate(script)]
    machine = Scheduler(cluster, policy_named("deadline"), slot=slot)
    world = CheckedWorld(machine)
    world.run(script, times)
    machine.validate()
    assert machine.active() == []


@settings(max_examples=examples(15, 40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.data(), cluster=clusters(), slot=st.sampled_from([0.0, 1.0, 60.0]), policy=st.sampled_from(sorted(POLICIES))
)
def test_misfortunes_lose_no_job_that_cannot_resume(
    data: st.DataObject, cluster: Cluster, slot: float, policy: str
) -> None:
    script, times = data.draw(scripts(misfortunes=True))
    script = [_unresumable(entry) for entry in script]
    machine = Scheduler(cluster, policy_named(policy), slot=slot, stories=False)
    world = CheckedWorld(machine)
    if policy in ("edf-admission", "elasticflow"):
        machine._state.promises_bind = False
    world.run(script, times)
    assert world.held == {}


def _unresumable(entry: ScriptEntry) -> ScriptEntry:
    return replace(entry, job=replace(entry.job, resumable=False)) if isinstance(entry, JobSubmitted) else entry
