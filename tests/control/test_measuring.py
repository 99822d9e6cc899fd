"""A job nobody has measured: it runs first, and is answered when its speed is known."""

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.control.state.entries import CostsLearned, CurveLearned
from penstock.core import Costs, Curve, Deadline, Job, Source, Span, Verdict, Work
from penstock.policies import patience
from penstock.policies.measure_first import LONGEST_S
from penstock.wire import JobPhase
from tests.control.build import PROPORTIONAL, Platform, StandInReader, platform

GUESS = Curve.from_table({1: 0.1, 2: 0.2, 4: 0.4}, source=Source.GUESSED)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """A platform that knows nothing about any job; the guess is ten times too slow."""
    known = StandInReader.read

    def guessed(self: StandInReader, spec: dict[str, object], **more: object) -> object:
        prepared = known(self, spec, **more)  # type: ignore[arg-type]
        job = replace(prepared.job, curve=GUESS, measure_first=spec.get("name") != "hasty")
        return replace(prepared, job=job, recipe=replace(prepared.recipe, fingerprint="same"))

    monkeypatch.setattr(StandInReader, "read", guessed)
    with platform(tmp_path) as built:
        yield built


def learned(world: Platform, job: str, curve: Curve = PROPORTIONAL) -> None:
    entry = CurveLearned(at=world.clock(), job_id=job, curve=curve, fingerprint="same")
    world.journal.record(entry)


def verdict(world: Platform, job: str) -> Verdict | None:
    quote = world.record(job).quote
    return quote.verdict if quote else None


def test_it_runs_and_is_answered_once_it_is_measured(world: Platform) -> None:
    job = world.submit(work=100, within=100)
    quote = world.record(job).quote
    assert quote is not None
    assert (quote.verdict, quote.speed) == (Verdict.DEFERRED, Source.GUESSED)
    assert "never measured" in quote.reason
    assert quote.answer_by == world.clock() + 25.0
    world.passes(2)
    assert world.backend.alive() == [f"{job}.1"]
    learned(world, job)
    assert verdict(world, job) is Verdict.PROMISED
    assert world.record(job).quote.speed is Source.MEASURED  # type: ignore[union-attr]


def test_one_that_turns_out_too_slow_is_refused_then(world: Platform) -> None:
    job = world.submit(work=100, within=20)
    world.passes(2)
    learned(world, job, Curve.from_table({1: 0.2, 2: 0.3}))
    assert verdict(world, job) is Verdict.REFUSED
    world.passes(3)
    assert world.phase(job) is JobPhase.DECLINED
    assert world.backend.alive() == []


def test_who_does_not_want_to_be_measured_is_answered_at_once(world: Platform) -> None:
    assert verdict(world, world.submit(name="hasty", work=100, within=100)) is Verdict.REFUSED


def test_without_free_devices_it_is_answered_on_a_guess_in_the_end(world: Platform) -> None:
    world.backend.total = 10_000
    first = world.submit(work=10_000, at_least=4)
    learned(world, first)
    second = world.submit(work=100, within=100, at_least=4)
    world.passes(20)
    assert verdict(world, second) is Verdict.DEFERRED
    world.passes(10)
    assert verdict(world, second) is Verdict.REFUSED


def test_nobody_waits_long_for_an_answer() -> None:
    job = Job(id="a", work=Work(1.0), curve=GUESS, goal=Deadline(1e6), submitted_at=0.0)
    assert patience(job) == LONGEST_S


def test_what_one_run_shows_holds_for_all_that_wait(world: Platform) -> None:
    world.backend.total = 1000
    first, second = world.submit(work=1000, at_least=4), world.submit(work=1000, at_least=4)
    learned(world, first)
    costs = Costs(start=Span(3.0, 5.0))
    world.journal.record(CostsLearned(at=world.clock(), fingerprint="same", costs=costs))
    assert {world.record(job).job.curve for job in (first, second)} == {PROPORTIONAL}
    assert {world.record(job).job.costs for job in (first, second)} == {costs}
    world.journal.state.scheduler.validate()
    world.restart()
    assert world.record(second).job.costs == costs
