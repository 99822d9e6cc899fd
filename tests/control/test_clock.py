"""Time never goes back, and never stands still for long."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.control.state.clock import SteadyClock


class Watches:
    """A wall clock that people set, and a monotonic one that nobody can."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1000.0, 5.0

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.wall, lambda: self.monotonic)

    def pass_time(self, seconds: float, jump: float = 0.0) -> None:
        self.monotonic += seconds
        self.wall += seconds + jump


@given(st.lists(st.tuples(st.integers(0, 100).map(float), st.integers(-5000, 50).map(float)), max_size=20))
def test_time_passes_at_least_as_fast_as_it_really_does(steps: list[tuple[float, float]]) -> None:
    watches = Watches()
    clock = watches.clock()
    last = clock()
    for seconds, jump in steps:
        watches.pass_time(seconds, jump)
        now = clock()
        assert now >= last + seconds
        assert now >= watches.wall
        last = now


def test_it_follows_the_wall_forward_and_ignores_it_backward() -> None:
    watches = Watches()
    clock = watches.clock()
    watches.pass_time(10, jump=100)
    assert clock() == 1110.0
    watches.pass_time(10, jump=-3600)
    assert clock() == 1120.0
    watches.pass_time(10)
    assert clock() == 1130.0


def test_what_was_written_before_the_start_counts() -> None:
    watches = Watches()
    clock = watches.clock()
    clock.not_before(5000.0)
    watches.pass_time(10)
    assert clock() == 5010.0
