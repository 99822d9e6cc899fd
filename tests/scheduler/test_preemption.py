"""Being stopped for others: not before it was worth starting, and never without a word."""

import math
import random

import pytest

from penstock.core import (
    Costs,
    Deadline,
    JobFinished,
    JobSubmitted,
    Overhead,
    Span,
    Suspend,
    Tenant,
    TenantChanged,
    Tick,
    Wake,
    decode,
    encode,
)
from penstock.policies import STINT_COSTS
from penstock.scheduler import ExpectedCosts, Scheduler
from tests.scheduler.build import job, scheduler

START_S = 30.0
COSTS = Costs(start=Span(START_S, START_S))


def _suspended(machine: Scheduler, *events: object) -> dict[str, str]:
    return {each.job_id: each.why for each in machine.handle(*events) if isinstance(each, Suspend)}  # type: ignore[arg-type]


def test_a_job_that_just_started_is_not_stopped_for_another() -> None:
    machine = scheduler("1x1", "srtf")
    machine.handle(JobSubmitted(0.0, job("long", 1e4, costs=COSTS)))
    assert _suspended(machine, JobSubmitted(10.0, job("short", 10.0, submitted_at=10.0))) == {}
    assert machine.due_at == STINT_COSTS * START_S
    told = _suspended(machine, Tick(STINT_COSTS * START_S))
    assert list(told) == ["long"]
    assert machine.devices_of("short")


@pytest.mark.parametrize("policy", ["srtf", "tiresias", "gandiva", "themis", "astraea"])
def test_nobody_is_stopped_again_before_that_was_worth_it(policy: str) -> None:
    """Over random arrivals, every stint that others end lasts as long as its stop and start cost, times the bound."""
    rng, machine = random.Random(5), scheduler("1x4", policy, costs=ExpectedCosts(Overhead(change_s=10.0)))
    began, now, ended, due = dict[str, float](), 0.0, 0, math.inf
    for number in range(150):
        arrival = now + rng.choice((1.0, 20.0, 90.0, 400.0))
        while (now := min(due, machine.next_finish_at())) < arrival:
            over = [JobFinished(now, name) for _, name in machine.finishing_by(now)]
            due, stops = _follow(machine, began, now, *(over or [Tick(now)]))
            ended += stops
        now, wanted = arrival, {"requested": rng.choice((1, 2, 4)), "submitted_at": arrival, "costs": COSTS}
        event = JobSubmitted(arrival, job(f"{number}", rng.choice((20.0, 300.0, 3000.0)), **wanted))
        due, stops = _follow(machine, began, now, event)
        ended += stops
    assert ended > 2, "nobody was ever stopped, so nothing was shown"


def _follow(machine: Scheduler, began: dict[str, float], now: float, *events: object) -> tuple[float, int]:
    """Hand events in and check who is stopped; returns when to come back, and how many were stopped."""
    stops, due = 0, math.inf
    for each in machine.handle(*events):  # type: ignore[arg-type]
        match each:
            case Suspend(name):
                stops += 1
                assert now - began[name] >= STINT_COSTS * (START_S + 10.0) - 1e-6
            case Wake(at):
                due = max(at, now + 1e-6)
            case _ if hasattr(each, "grant") and type(each).__name__ in ("Start", "Resume"):
                began[each.grant.job_id] = now
    machine.validate()
    return due, stops


def test_a_promise_comes_before_that() -> None:
    machine = scheduler("1x1", "deadline")
    machine.handle(JobSubmitted(0.0, job("long", 1e6, costs=COSTS)))
    told = _suspended(machine, JobSubmitted(1.0, job("due", 50.0, goal=Deadline(52.0), submitted_at=1.0)))
    assert "promised a deadline" in told["long"]


def test_so_does_a_quota_whose_owner_asks() -> None:
    machine = scheduler("1x2", "srtf")
    machine.handle(TenantChanged(0.0, Tenant(name="vision", quota=1)))
    machine.handle(*(JobSubmitted(0.0, job(f"{each}", 1e4, tenant="nlp", costs=COSTS)) for each in range(2)))
    told = _suspended(machine, JobSubmitted(1.0, job("mine", 1e6, tenant="vision", submitted_at=1.0)))
    assert len(told) == 1
    assert "a job of vision, whose tenant takes its quota back" in next(iter(told.values()))


def test_the_victim_is_told_for_whom_and_until_when() -> None:
    machine = scheduler("1x1", "srtf")
    machine.handle(JobSubmitted(0.0, job("long", 1e4)))
    machine.handle(JobSubmitted(10.0, job("short", 600.0, submitted_at=10.0)))
    said = str(machine.why("long"))
    assert "its device goes to job short, which srtf puts first" in said
    assert "expected to go on in about 10m" in said


def test_what_it_is_told_is_in_the_log() -> None:
    machine, twin = scheduler("1x1", "srtf"), scheduler("1x1", "srtf")
    machine.handle(JobSubmitted(0.0, job("long", 1e4)))
    twin.handle(JobSubmitted(0.0, job("long", 1e4)))
    event = JobSubmitted(10.0, job("short", 600.0, submitted_at=10.0, priority=1))
    for each in (machine, twin):
        each.apply(event)
    decision = machine.decide(10.0)
    assert "higher priority" in dict(decision.reasons)["long"]
    twin.apply_decision(decode(encode(decision)))
    machine.apply_decision(decision)
    assert twin.why("long").entries == machine.why("long").entries
