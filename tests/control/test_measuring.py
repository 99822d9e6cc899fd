"""A job nobody has measured: it runs first, and is answered when its speed is known."""

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.cli.terminal.format import answer_lines
from penstock.control.state.entries import CostsLearned, CurveLearned
from penstock.core import Costs, Curve, Deadline, Job, Source, Span, Verdict, Work
from penstock.policies import patience
from penstock.policies.measure_first import LONGEST_S
from penstock.wire import ConflictError, JobPhase
from tests.control.build import ADMIN, PROPORTIONAL, Platform, StandInReader, platform

NOTE = "its speed is not known yet: measured when it first runs"
GUESS = Curve.from_table({1: 0.1, 2: 0.2, 4: 0.4}, source=Source.GUESSED)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """A platform that knows nothing about any job; the guess is ten times too slow."""
    known = StandInReader.read

    def guessed(self: StandInReader, spec: dict[str, object], **more: object) -> object:
        prepared = known(self, spec, **more)  # type: ignore[arg-type]
        job = replace(prepared.job, curve=GUESS, measure_first=spec.get("name") != "hasty")
        return replace(prepared, job=job, note=NOTE, recipe=replace(prepared.recipe, fingerprint="same"))

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
    assert "not known yet" in quote.reason
    asked = world.platform.quote({"work": 100, "within": 100}, ADMIN)
    assert asked.reason.count("not known yet") == 1, "by the policy, or by the note of the job file"
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


def test_on_a_busy_cluster_it_takes_devices_from_best_effort_work_to_be_measured(world: Platform) -> None:
    world.backend.total = 10_000
    first = world.submit(work=10_000, at_least=4)
    learned(world, first)
    world.passes(2)
    second = world.submit(work=100, within=100)
    world.passes(2)
    assert world.backend.alive() == [f"{second}.1"]
    learned(world, second, Curve.from_table({1: 10.0, 2: 20.0, 4: 40.0}))
    assert verdict(world, second) is Verdict.PROMISED


def test_a_promised_job_with_time_to_spare_makes_room_for_measuring(world: Platform) -> None:
    world.backend.total = 10_000
    first = world.submit(work=200, within=1000)
    learned(world, first)
    assert verdict(world, first) is Verdict.PROMISED
    world.passes(2)
    assert len(world.record(first).places) == 4
    second = world.submit(work=100, within=100)
    world.passes(2)
    assert world.record(second).grant is not None
    assert verdict(world, first) is Verdict.PROMISED


def test_time_on_devices_for_measuring_is_bounded(world: Platform) -> None:
    """One that does not show its speed gives way again to work that was promised nothing."""
    world.backend.total = 10_000
    first = world.submit(work=10_000, at_least=4)
    learned(world, first)
    world.passes(2)
    world.submit(work=100_000, within=100_000, at_least=4)
    world.passes(2)
    assert world.record(first).grant is None
    world.passes(40)
    assert world.record(first).grant is not None


def test_nobody_is_turned_away_or_stopped_on_a_guess(world: Platform) -> None:
    """By the guess 1000 steps take 2500 s on all devices."""
    world.backend.total = 10_000
    job = world.submit(work=1000, within=200)
    for _ in range(3):
        world.passes(60)
        world.submit(work=5)
        assert (verdict(world, job), world.backend.alive().count(f"{job}.1")) == (Verdict.DEFERRED, 1)
    world.passes(60)
    world.submit(work=5)
    assert verdict(world, job) is Verdict.BEST_EFFORT
    assert "passed before its speed was known" in world.record(job).quote.reason  # type: ignore[union-attr]
    assert f"{job}.1" in world.backend.alive()


def test_the_end_of_a_job_is_not_foretold_on_a_guess(world: Platform) -> None:
    job = world.submit(work=100, at_most=1)
    world.passes(2)
    world.forecasts.refresh()
    assert world.forecasts.expected_at(job) is None
    assert "not known yet" in world.journal.state.story(world.record(job)).now
    quote = world.platform.quote({"work": 100, "at_most": 1}, ADMIN)
    assert (quote.speed, quote.expected_at) == ("guessed", None)
    learned(world, job)
    world.forecasts._next_at = 0.0
    world.forecasts.refresh()
    assert world.forecasts.expected_at(job) is not None
    assert world.record(job).quote.speed is Source.MEASURED  # type: ignore[union-attr]


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


def test_a_script_that_counts_to_something_else_is_told_of_once(world: Platform) -> None:
    world.backend.total = 60
    job = world.submit(work=500, at_most=1)
    world.passes(30)
    notes = [note.text for note in world.record(job).notes if "counts to 60" in note.text]
    assert len(notes) == 1
    assert "its job file to 500" in notes[0]


def test_a_job_that_ends_before_it_was_answered_is_not_deferred_for_ever(world: Platform) -> None:
    job = world.submit(work=100, within=400)
    world.passes(3)
    shown = world.platform.job(job, ADMIN)
    assert shown.quote is not None
    assert (shown.quote.verdict, shown.quote.answer_by) == ("deferred", None)
    assert "final answer when it ends, or at its deadline" in answer_lines(shown)
    world.passes(60, every=2.0)
    ended = world.platform.job(job, ADMIN)
    assert (ended.state, ended.quote is not None and ended.quote.verdict) == ("finished", "best effort")
    assert ended.quote is not None
    assert "before its deadline, before it could be answered" in ended.quote.reason


def test_a_job_that_was_never_measured_is_answered_by_its_deadline(world: Platform) -> None:
    world.backend.total = 10_000
    job = world.submit(work=100, within=40)
    assert world.platform.job(job, ADMIN).quote is not None
    world.passes(41)
    shown = world.platform.job(job, ADMIN)
    assert shown.quote is not None
    assert (shown.state, shown.quote.verdict) == ("running", "best effort")
    assert "deadline has passed before its speed was known" in shown.quote.reason


def test_a_deadline_that_counts_is_not_given_up_for_one_that_cannot_be_answered_yet(world: Platform) -> None:
    job = world.submit(work=1000, within=1800)
    world.passes(2)
    before, seq = world.record(job).job, world.journal.seq
    with pytest.raises(ConflictError, match="cannot be answered now: its speed was never measured"):
        world.commands.edit(job, ADMIN, {"deadline": "1m"})
    assert (world.record(job).job, world.journal.seq) == (before, seq)
    learned(world, job)
    assert verdict(world, job) is Verdict.PROMISED
    assert world.record(job).job.deadline == before.deadline


def test_a_later_deadline_may_be_asked_for_before_the_speed_is_known(world: Platform) -> None:
    job = world.submit(work=1000, within=1800)
    world.passes(2)
    world.commands.edit(job, ADMIN, {"deadline": "2h"})
    assert verdict(world, job) is Verdict.DEFERRED
    learned(world, job)
    assert verdict(world, job) is Verdict.PROMISED
