"""When silence is a hang: on a clock that the test moves."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.backends.agent.watch.hang_watch import AGAIN_S, END_FLOOR_S, LOOK_S, TELL_FLOOR_S, HangStep, HangWatch

HERE, THERE = {"w0": ("main", "load")}, {"w0": ("main", "evaluate")}


class Silence:
    """A run that trained with one step every so often, and then says nothing."""

    def __init__(self, every_s: float = 1.0, limit_s: float | None = None, learns: bool = True) -> None:
        self.now = 0.0
        self.watch = HangWatch(limit_s, learns=learns, now=0.0)
        for _ in range(20):
            self.now += every_s
            self.watch.stepped(self.now)

    def later(self, seconds: float, *, may_end: bool = True) -> HangStep:
        self.now += seconds
        return self.watch.next(self.now, may_end=may_end)


def test_a_limit_of_the_job_ends_it_after_one_look() -> None:
    silence = Silence(limit_s=5.0)
    assert silence.later(4.9) is HangStep.WAIT
    assert silence.later(0.2) is HangStep.LOOK
    assert silence.later(0.1) is HangStep.WAIT
    silence.watch.seen(HERE)
    assert silence.later(0.1) is HangStep.END


def test_a_look_that_never_comes_back_holds_nothing_up_for_long() -> None:
    silence = Silence(limit_s=5.0)
    assert silence.later(5.1) is HangStep.LOOK
    assert silence.later(LOOK_S - 0.1) is HangStep.WAIT
    assert silence.later(0.2) is HangStep.END


def test_what_is_learned_is_told_first_and_ended_when_nobody_has_moved() -> None:
    silence = Silence()
    assert silence.later(TELL_FLOOR_S - 0.1) is HangStep.WAIT
    assert silence.later(0.2) is HangStep.LOOK
    silence.watch.seen(HERE)
    assert silence.later(END_FLOOR_S - TELL_FLOOR_S - 0.2) is HangStep.WAIT
    assert silence.later(0.2) is HangStep.LOOK
    silence.watch.seen(HERE)
    assert silence.later(AGAIN_S - 0.1) is HangStep.WAIT
    assert silence.later(0.2) is HangStep.LOOK
    silence.watch.seen(HERE)
    assert silence.later(0.1) is HangStep.END


def test_workers_that_move_get_more_time() -> None:
    silence = Silence()
    silence.later(TELL_FLOOR_S + 1)
    silence.watch.seen(HERE)
    assert silence.later(END_FLOOR_S) is HangStep.LOOK
    silence.watch.seen(HERE)
    assert silence.later(AGAIN_S) is HangStep.LOOK
    silence.watch.seen(THERE)
    assert silence.later(1.0) is HangStep.WAIT
    assert silence.later(2 * END_FLOOR_S) is HangStep.LOOK


def test_a_sign_of_life_ends_the_silence() -> None:
    silence = Silence()
    assert silence.later(TELL_FLOOR_S + 1) is HangStep.LOOK
    silence.watch.alive(silence.now)
    assert silence.later(TELL_FLOOR_S - 1) is HangStep.WAIT


def test_nothing_is_learned_before_there_is_something_to_learn_from_or_where_it_is_off() -> None:
    fresh = HangWatch(None, learns=True, now=0.0)
    assert fresh.next(1e6) is HangStep.WAIT
    never = Silence(learns=False)
    assert never.later(1e6) is HangStep.WAIT
    anew = Silence()
    anew.watch.begin(anew.now)
    assert anew.later(1e6) is HangStep.WAIT


def test_scripts_that_cannot_be_seen_are_told_of_and_not_ended() -> None:
    silence = Silence()
    assert silence.later(TELL_FLOOR_S + 1, may_end=False) is HangStep.LOOK
    silence.watch.seen({})
    assert silence.later(1e6, may_end=False) is HangStep.WAIT


def test_output_is_a_sign_of_life_and_teaches_nothing() -> None:
    watch = HangWatch(None, learns=True, now=0.0)
    for now in range(1000):
        watch.alive(float(now))
    assert watch.next(1e6) is HangStep.WAIT
    silence = Silence()
    silence.watch.alive(silence.now + TELL_FLOOR_S)
    assert silence.later(TELL_FLOOR_S + 1) is HangStep.WAIT


@given(st.lists(st.floats(0.01, 1000.0), min_size=6, max_size=60), st.floats(0.0, 9.9))
def test_nothing_that_is_usual_is_a_hang(intervals: list[float], times: float) -> None:
    watch, now = HangWatch(None, learns=True, now=0.0), 0.0
    for interval in intervals:
        now += interval
        watch.stepped(now)
    assert watch.next(now + times * max(intervals[1:])) is HangStep.WAIT
