"""Forecasts: what they say happens, if nothing unforeseen does; and they follow what does."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.control.future.forecast import forecast
from penstock.control.future.forecasts import Forecasts
from penstock.control.platform.commands import Commands
from penstock.core import Cluster, Costs, Curve, Deadline, Job, JobSubmitted, Span, Work
from penstock.policies import policy_named
from penstock.scheduler import Scheduler
from penstock.simulate import simulate
from tests.control.build import ADMIN, Platform, StandInReader, platform

CURVE = Curve.from_table({1: 1.0, 2: 1.8, 4: 3.0})
COSTS = Costs(start=Span(6.0, 9.0), resize=Span(1.0, 2.0), end=Span(2.0, 3.0))


def jobs(count: int) -> list[Job]:
    made = [
        Job(id=f"job-{number}", work=Work(40.0 + 13 * (number % 5)), curve=CURVE, costs=COSTS)
        for number in range(count)
    ]
    return [replace(job, goal=Deadline(400.0)) if number % 3 == 0 else job for number, job in enumerate(made)]


def submitted(*wanted: Job) -> Scheduler:
    machine = Scheduler(Cluster.parse("1x4"), policy_named("deadline"))
    machine.handle(*(JobSubmitted(0.0, job) for job in wanted))
    return machine


@pytest.mark.parametrize("count", [1, 2, 7, 15])
def test_a_forecast_is_what_the_simulator_says_happens(count: int) -> None:
    result = simulate(jobs(count), Cluster.parse("1x4"), policy_named("deadline"), slot=0.0, validate=True)
    happened = {outcome.id: outcome.finished_at for outcome in result.outcomes}
    machine = submitted(*jobs(count))
    before = machine.active()
    assert forecast(machine.twin(), machine.active(), within_s=60.0) == pytest.approx(happened)
    assert machine.active() == before, "looking ahead changes nothing"


def test_without_time_to_look_the_rest_is_extrapolated() -> None:
    machine = submitted(*jobs(15))
    exact = forecast(machine.twin(), machine.active(), within_s=60.0)
    rough = forecast(machine.twin(), machine.active(), within_s=-1.0)
    assert set(rough) == set(exact)
    assert max(rough.values()) == pytest.approx(max(exact.values()), rel=0.5)


def test_everybody_who_is_active_has_an_expected_end(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        first = world.submit(work=100)
        assert world.forecasts.expected_at(first) == world.clock() + 25.0
        second = world.submit(work=100, within=60)
        ends = [world.forecasts.expected_at(job) for job in (first, second)]
        assert all(end is not None and world.clock() < end <= world.clock() + 60 for end in ends)


def test_a_forecast_follows_what_happens_and_ends_with_the_job(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        job = world.submit(work=100)
        forecasts = Forecasts(world.journal, every_s=0.0)
        _slow_down(world, job)
        forecasts.refresh()
        later = forecasts.expected_at(job)
        assert later is not None
        assert later > world.clock() + 20.0
        world.backend.total = 100
        world.passes(60)
        forecasts.refresh()
        assert forecasts.expected_at(job) is None


def test_in_a_rush_of_submissions_most_are_answered_without_a_look(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        ticks = itertools.count()
        forecasts = Forecasts(world.journal, every_s=1e9, clock=lambda: next(ticks) * 0.01)
        commands = Commands(world.journal, StandInReader(), forecasts)
        known = [forecasts.expected_at(commands.submit({"work": 1e9}, ADMIN).job_id) is not None for _ in range(60)]
        assert all(known[:4])
        assert sum(known[30:]) < 10


def _slow_down(world: Platform, job: str) -> None:
    """Ten seconds pass, and the run has hardly moved."""
    world.passes()
    world.backend.total = 1000
    world.passes(10)
    assert "Progressed" in [line.kind for line in world.journal.store.log.read()], job
