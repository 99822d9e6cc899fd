"""How long training stood still, on clocks that nobody sets and no two machines share."""

import time

import pytest

from penstock.runtime.world.timing import StepTiming


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_pause_is_not_measured_on_the_wall(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    timing = StepTiming()
    timing.end(16)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    timing.resume()
    assert 0.0 <= timing.take_pause() < 60.0


def test_a_first_world_has_no_pause() -> None:
    timing = StepTiming()
    timing.resume()
    assert timing.fresh
    assert timing.take_pause() == 0.0
    assert not timing.fresh


def test_newcomers_count_a_pause_that_others_began_whatever_their_own_clock_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three machines whose clocks have nothing in common: two made a last step 5 and 7 seconds ago."""
    clock = {"now": 0.0}
    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])
    workers = [StepTiming() for _ in range(3)]
    for worker, last in zip(workers, (1_000.0, 50.0), strict=False):
        clock["now"] = last
        worker.end(16)
    here = (1_005.0, 57.0, 9_999_999.0)
    told = []
    for worker, now in zip(workers, here, strict=True):
        clock["now"] = now
        told.append(worker.stood_for())
    assert told == [5.0, 7.0, float("inf")]
    pauses = []
    for worker, now in zip(workers, here, strict=True):
        clock["now"] = now
        worker.share(told)
        clock["now"] += 1.0
        worker.resume()
        pauses.append(worker.take_pause())
    assert pauses == [6.0, 6.0, 6.0]
