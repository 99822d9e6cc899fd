"""A job that was measured on other devices than it needs: it is measured there first, or its promise allows for it."""

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.control.loop.learning import Learned
from penstock.control.state.entries import CurveLearned
from penstock.core import Curve, Quote, Scaling, Source, Verdict
from tests.control.build import ADMIN, Platform, StandInLearner, StandInReader, platform

ONE_MEASURED = Scaling(
    counts=(1, 2, 4), rates=(1.0, 1.8, 3.2), source=Source.PREDICTED, doubts=(0.02, 0.46, 0.7), measured=(1,)
)
WEAK = replace(ONE_MEASURED, rates=(1.0, 0.99, 1.4), doubts=(0.02, 0.02, 0.4), measured=(1, 2))
STRONG = replace(ONE_MEASURED, doubts=(0.02, 0.02, 0.5), measured=(1, 2))
ALL = Curve.from_table({1: 1.0, 2: 1.8, 4: 3.2})


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """A platform on which every job is one script, which was measured on one device."""
    read = StandInReader.read

    def known(self: StandInReader, spec: dict[str, object], **more: object) -> object:
        draft = read(self, spec, **more)  # type: ignore[arg-type]
        job = replace(draft.job, curve=curve(ONE_MEASURED), measure_first=spec.get("name") != "hasty")
        return replace(draft, job=job, recipe=replace(draft.recipe, fingerprint="same"))

    monkeypatch.setattr(StandInReader, "read", known)
    with platform(tmp_path) as built:
        built.backend.total = 10_000
        yield built


def curve(scaling: Scaling) -> Curve:
    return Curve((("*", scaling),))


def learned(world: Platform, job: str, known: Curve) -> None:
    world.journal.record(CurveLearned(at=world.clock(), job_id=job, curve=known, fingerprint="same"))


def quote_of(world: Platform, job: str) -> Quote:
    quote = world.record(job).quote
    assert quote is not None
    return quote


def width(world: Platform, job: str) -> int:
    return len(world.record(job).places)


def test_a_job_is_measured_on_the_devices_it_asks_for_before_it_is_promised_anything(world: Platform) -> None:
    """On two devices it is predicted to take 56 s of the 70 s that it has; it takes 101."""
    job = world.submit(work=100, within=70, at_least=2, at_most=2)
    quote = quote_of(world, job)
    assert (quote.verdict, quote.measured_on) == (Verdict.DEFERRED, 2)
    assert "on 2 devices, the fewest it takes, was never measured" in quote.reason
    world.passes(2)
    assert width(world, job) == 2
    learned(world, job, curve(WEAK))
    assert quote_of(world, job).verdict is Verdict.REFUSED


def test_it_is_promised_what_it_can_keep_as_soon_as_it_is_measured(world: Platform) -> None:
    job = world.submit(work=100, within=70, at_least=2, at_most=2)
    world.passes(2)
    learned(world, job, curve(STRONG))
    quote = quote_of(world, job)
    assert (quote.verdict, quote.speed, quote.measured_on) == (Verdict.PROMISED, Source.MEASURED, 0)
    assert "never measured" not in quote.reason


@pytest.mark.parametrize(("within", "verdict"), [(80, Verdict.DEFERRED), (160, Verdict.PROMISED)])
def test_one_that_is_not_to_be_measured_is_promised_its_slowest_speed_only(
    world: Platform, within: int, verdict: Verdict
) -> None:
    job = world.submit(name="hasty", work=100, within=within, at_least=2, at_most=2)
    quote = quote_of(world, job)
    assert quote.verdict is verdict
    if verdict is Verdict.PROMISED:
        assert "counts on 0.972 iterations a second on 2 devices, where it was never measured" in quote.reason


def test_a_job_that_cannot_be_measured_in_time_is_promised_its_slowest_speed(world: Platform) -> None:
    """All devices are held by a job that begins again when it is stopped: a measurement is not worth that."""
    blocking = world.submit(work=10_000, at_least=4, resumable=False)
    world.passes(2)
    job = world.submit(work=100, within=600, at_least=4)
    world.passes(100, every=20.0)
    assert (quote_of(world, job).measured_on, world.record(job).grant) == (4, None)
    assert world.record(blocking).grant is not None
    world.passes(40, every=20.0)
    quote = quote_of(world, job)
    assert quote.verdict is Verdict.PROMISED
    assert "on 4 devices, where it was never measured" in quote.reason


def test_a_job_that_needs_more_devices_than_it_was_measured_on_is_measured_there(world: Platform) -> None:
    """On one device it takes 100 of its 50 s, on two predicted 56 and on four 31."""
    job = world.submit(work=100, within=50)
    quote = quote_of(world, job)
    assert (quote.verdict, quote.measured_on) == (Verdict.DEFERRED, 4)
    assert "it would be in time on 4 devices if it were as fast there as predicted" in quote.reason
    busy = world.submit(work=10_000, at_least=4)
    world.passes(2)
    assert (width(world, job), world.record(busy).grant) == (4, None)
    now = world.journal.state.story(world.record(job)).now
    assert "it is measured on 4 devices first" in now
    learned(world, job, ALL)
    assert quote_of(world, job).verdict is Verdict.PROMISED


def test_a_job_that_cannot_resume_is_not_stopped_to_be_measured_on_more_devices(world: Platform) -> None:
    world.submit(work=30, at_least=2, at_most=2, resumable=False)
    world.passes(2)
    job = world.submit(work=100, within=70, resumable=False)
    assert quote_of(world, job).measured_on == 2
    world.passes(2)
    assert width(world, job) == 2
    learned(world, job, curve(replace(WEAK, rates=(1.0, 0.99, 3.2), doubts=(0.02, 0.02, 0.7))))
    world.passes(20)
    assert (world.record(job).over, width(world, job), world.record(job).stint) == (False, 2, 1)
    assert "measured on" not in world.journal.state.story(world.record(job)).now


def test_measuring_on_more_devices_is_bounded(world: Platform) -> None:
    """One that does not show its speed there gives way to the others after a minute."""
    job = world.submit(work=1000, within=600)
    world.passes(70)
    assert quote_of(world, job).verdict is Verdict.DEFERRED
    small = [world.submit(work=5, at_least=1, at_most=1) for _ in range(2)]
    world.passes(3)
    assert all(world.record(each).started_at is not None for each in small)


def test_a_measurement_reaches_every_job_of_the_script(world: Platform) -> None:
    """One that is deferred, one that waits for devices, one that holds a promise and one that is paused."""
    promised = world.submit(name="hasty", work=300, within=500, at_least=1, at_most=1)
    runs = world.submit(work=10_000, at_least=2, at_most=2)
    world.passes(2)
    deferred = world.submit(work=1000, within=400, at_least=2)
    waiting = world.submit(work=1000, at_least=4)
    paused = world.submit(work=1000, at_least=2)
    world.commands.pause(paused, ADMIN)
    expected = {promised, runs, deferred, waiting, paused}
    learned(world, runs, curve(WEAK))
    assert {job for job in expected if world.record(job).job.curve == curve(WEAK)} == expected


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_what_a_run_shows_reaches_those_that_wait_though_it_is_no_news_to_the_run(
    world: Platform, monkeypatch: pytest.MonkeyPatch, scale: float
) -> None:
    """A job that was read before the measurement and recorded after it, or a run that counts in a unit of its own."""
    runs = world.submit(work=10_000, at_least=2, at_most=2, resumable=False)
    world.passes(2)
    world.journal.record(CurveLearned(at=world.clock(), job_id=runs, curve=curve(WEAK).scaled(scale)))
    deferred, waiting = world.submit(work=500, within=400, at_least=4), world.submit(work=1000, at_least=4)
    lesson = Learned(speed=curve(WEAK), scale=scale, measured=(2, "*"))
    learn = lambda _self, _report, record: lesson if record.id == runs else Learned()  # noqa: E731
    monkeypatch.setattr(StandInLearner, "learn", learn)
    world.passes(3)
    assert world.record(runs).job.curve == curve(WEAK).scaled(scale)
    assert {world.record(job).job.curve for job in (deferred, waiting)} == {curve(WEAK)}
    world.passes(3)
    told = [line for line in world.journal.store.log.read() if line.kind == "CurveLearned"]
    assert len(told) == (2 if scale == 1.0 else 3), "it is said once"


def test_a_doubt_that_passes_is_news() -> None:
    """The rate is as predicted, and certain now."""
    lesson = Learned(speed=curve(STRONG), measured=(2, "*"))
    assert lesson.is_news(curve(ONE_MEASURED))
    assert not lesson.is_news(curve(replace(STRONG, doubts=(0.02, 0.16, 0.5)))), "plans are not made anew for so little"
