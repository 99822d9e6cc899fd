"""Time goes on whatever people do to the wall clock: a glitch changes nothing, a lasting step is followed."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tools.steady_clock import LASTING_S, SteadyClock, since_boot

HOUR, YEAR = 3600.0, 365 * 86400.0


class Watches:
    """A wall clock that people set, and the machine's own that nobody can."""

    def __init__(self) -> None:
        self.wall, self.machine = 1_000_000.0, 5.0

    def clock(self, offset: float | None = None) -> SteadyClock:
        return SteadyClock(lambda: self.wall, lambda: self.machine, offset=offset)

    def pass_time(self, seconds: float, jump: float = 0.0) -> None:
        self.machine += seconds
        self.wall += seconds + jump


@given(st.lists(st.tuples(st.integers(0, 100).map(float), st.integers(-5000, 5000).map(float)), max_size=30))
def test_time_never_goes_back_and_never_stands_still(steps: list[tuple[float, float]]) -> None:
    watches = Watches()
    clock = watches.clock()
    last = clock()
    for seconds, jump in steps:
        watches.pass_time(seconds, jump)
        now = clock()
        assert now >= last + seconds / 2
        last = now


@pytest.mark.parametrize("jump", [HOUR, -HOUR, YEAR, -YEAR])
def test_a_glitch_changes_nothing(jump: float, caplog: pytest.LogCaptureFixture) -> None:
    watches = Watches()
    clock = watches.clock()
    began = clock()
    watches.pass_time(10.0, jump)
    for _ in range(5):
        assert clock() == began + watches.machine - 5.0
        watches.pass_time(1.0)
    assert clock.step_s == jump
    assert ("ahead of" if jump > 0 else "behind") in clock.notice
    watches.pass_time(1.0, -jump)
    assert clock() == began + 16.0
    assert (clock.step_s, clock.notice) == (0.0, "")
    assert caplog.records[0].message.startswith("the wall clock is")
    assert len(caplog.records) == 2


def test_a_step_forward_that_lasts_is_followed() -> None:
    watches = Watches()
    clock = watches.clock()
    watches.pass_time(1.0, HOUR)
    clock()
    watches.pass_time(LASTING_S - 1.0)
    assert clock() == watches.wall - HOUR
    watches.pass_time(1.0)
    assert clock() == watches.wall
    assert clock.notice == ""


def test_a_step_backward_that_lasts_is_followed_slowly() -> None:
    watches = Watches()
    clock = watches.clock()
    watches.pass_time(1.0, -HOUR)
    clock()
    watches.pass_time(LASTING_S)
    before = clock()
    assert "passes slowly" in clock.notice
    watches.pass_time(HOUR)
    assert clock() == before + HOUR / 2
    watches.pass_time(HOUR)
    assert clock() == watches.wall


def test_small_corrections_are_followed_at_once_and_told_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    watches = Watches()
    clock = watches.clock()
    for jump in (0.5, -0.5, 1.5, -1.0):
        watches.pass_time(10.0, jump)
        assert abs(clock() - watches.wall) <= 1.0
    assert caplog.records == []


def test_what_was_written_before_the_start_counts_and_is_lost_slowly() -> None:
    watches = Watches()
    clock = watches.clock()
    clock.not_before(watches.wall + 100.0)
    watches.pass_time(10.0)
    assert clock() == watches.wall - 10.0 + 105.0
    watches.pass_time(200.0)
    assert clock() == watches.wall


def test_whoever_is_told_the_offset_tells_the_same_time() -> None:
    watches = Watches()
    clock = watches.clock()
    watches.pass_time(3.0, YEAR)
    other = watches.clock(clock.offset)
    assert other() == clock()
    assert other.step_s == YEAR


def test_the_machines_clock_counts() -> None:
    assert since_boot() <= since_boot()
    assert abs(SteadyClock()() - time.time()) < 2.0
