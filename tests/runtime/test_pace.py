"""How long training stood still, on a clock that nobody sets."""

import time

import pytest

from penstock.runtime.timing import Pace


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_pause_is_not_measured_on_the_wall(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    pace = Pace()
    pace.end(16)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    pace.resume()
    assert 0.0 <= pace.take_pause() < 60.0


def test_a_first_world_has_no_pause() -> None:
    pace = Pace()
    pace.resume()
    assert pace.fresh
    assert pace.take_pause() == 0.0
    assert not pace.fresh
