"""A rate out of reports that pause, jump and fall back."""

import random

import pytest

from penstock.core import InputError
from penstock.learn import ProgressMeter


def feed(
    meter: ProgressMeter, steps: int, step_s: float, *, at: float = 0.0, step: int = 0, every: int = 1
) -> tuple[float, int]:
    """Report every ``every`` steps; returns the time and step it ended at."""
    for done in range(1, steps + 1):
        at, step = at + step_s, step + 1
        if done % every == 0:
            meter.report(at, step)
    return at, step


def rate_of(meter: ProgressMeter) -> float:
    found = meter.measured()
    assert found is not None
    return found.rate


@pytest.mark.parametrize(("step_s", "every"), [(0.01, 50), (0.3, 1), (1.0, 1), (20.0, 1)])
def test_a_steady_rate_is_found(step_s: float, every: int) -> None:
    meter = ProgressMeter()
    feed(meter, 40 * every, step_s, every=every)
    found = meter.measured()

    assert found is not None
    assert found.rate == pytest.approx(1 / step_s)
    assert found.spread == pytest.approx(0.0, abs=1e-6 / step_s)
    assert found.steps == pytest.approx(found.seconds / step_s)


def test_nothing_is_said_too_early() -> None:
    meter = ProgressMeter(warmup_steps=5, stretch_s=1.0)
    feed(meter, 6, 0.1)

    assert meter.measured() is None


def test_pauses_do_not_slow_it_down() -> None:
    meter = ProgressMeter()
    at, step = feed(meter, 50, 0.5)
    for _ in range(3):
        at, step = feed(meter, 20, 0.5, at=at + 30.0, step=step)
    found = meter.measured()

    assert found is not None
    assert found.rate == pytest.approx(2.0)
    assert found.seconds < 60


def test_the_first_steps_after_a_change_of_width_do_not_count() -> None:
    meter = ProgressMeter(warmup_steps=5)
    at, step = feed(meter, 50, 1.0)
    meter.resized()
    assert meter.measured() is None
    at, step = feed(meter, 5, 10.0, at=at, step=step)
    feed(meter, 4, 0.5, at=at, step=step)

    assert rate_of(meter) == pytest.approx(2.0)


def test_a_restart_from_a_checkpoint_goes_on() -> None:
    meter = ProgressMeter(warmup_steps=0)
    at, _ = feed(meter, 50, 1.0)
    feed(meter, 50, 1.0, at=at + 100, step=20)
    found = meter.measured()

    assert found is not None
    assert found.rate == pytest.approx(1.0)
    assert found.seconds <= 100


def test_repeated_reports_and_a_clock_that_jumps_back_do_no_harm() -> None:
    meter = ProgressMeter(warmup_steps=0)
    for second in range(20):
        meter.report(float(second), second)
        meter.report(float(second), second)
    meter.report(5.0, 21)
    feed(meter, 20, 1.0, at=5.0, step=21)

    assert rate_of(meter) == pytest.approx(1.0)


def test_noise_shows_as_spread() -> None:
    rng = random.Random(3)
    meter = ProgressMeter(window=400)
    at = 0.0
    for step in range(400):
        at += max(0.01, rng.gauss(2.0, 0.2))
        meter.report(at, step)
    found = meter.measured()

    assert found is not None
    assert found.rate == pytest.approx(0.5, rel=0.03)
    assert found.spread == pytest.approx(0.05, rel=0.25)


def test_old_stretches_leave_the_window() -> None:
    meter = ProgressMeter(window=10)
    at, step = feed(meter, 50, 1.0)
    feed(meter, 25, 2.0, at=at, step=step)

    assert rate_of(meter) == pytest.approx(0.5)


def test_every_second_is_handed_over_once() -> None:
    meter = ProgressMeter(warmup_steps=0)
    at, step = feed(meter, 21, 1.0)
    first = meter.drain()
    assert meter.drain() is None
    feed(meter, 10, 1.0, at=at, step=step)
    second = meter.drain()

    assert first is not None
    assert second is not None
    assert [first.seconds, second.seconds] == pytest.approx([20.0, 10.0])


@pytest.mark.parametrize("wrong", [{"window": 0}, {"warmup_steps": -1}, {"stretch_s": -1.0}])
def test_a_meter_that_cannot_work_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError):
        ProgressMeter(**wrong)
