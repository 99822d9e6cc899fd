"""Decisions take a bounded share of the time, however many jobs wait; what arrives meanwhile is answered together."""

import pytest

from penstock.control.state.decision_pace import LONG_S, LONGEST_REST_S, SHARE, DecisionPace
from penstock.wire import JobPhase
from tests.control.build import Platform


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_short_decisions_follow_each_other_at_once() -> None:
    pace = DecisionPace(Time())
    for _ in range(3):
        pace.decided(LONG_S)
        assert not pace.resting


def test_a_single_long_decision_is_not_counted() -> None:
    pace = DecisionPace(Time())
    pace.decided(5.0)
    assert not pace.resting
    pace.decided(0.001)
    pace.decided(5.0)
    assert not pace.resting


def test_long_decisions_take_no_more_than_their_share_of_the_time() -> None:
    time = Time()
    pace = DecisionPace(time)
    pace.decided(0.1)
    began = time.now
    pace.decided(0.1)
    while pace.resting:
        time.now += 0.001
    assert 0.1 / (0.1 + time.now - began) == pytest.approx(SHARE, rel=0.02)


def test_nobody_waits_for_ever() -> None:
    time = Time()
    pace = DecisionPace(time)
    pace.decided(60.0)
    pace.decided(60.0)
    time.now += LONGEST_REST_S
    assert not pace.resting


def test_what_arrives_meanwhile_is_recorded_at_once_and_answered_by_the_next_decision(
    world: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = Time()
    pace = DecisionPace(time)
    monkeypatch.setattr(world.journal, "_pace", pace)
    pace.decided(0.1)
    pace.decided(0.1)
    first, second = world.submit(work=100), world.submit(work=100)
    state = world.journal.state
    assert {first, second} <= set(state.jobs)
    assert [state.jobs[each].quote for each in (first, second)] == [None, None]
    assert state.phase(state.jobs[first]) is JobPhase.ASKING
    time.now += LONGEST_REST_S
    world.journal.decide()
    assert all(state.jobs[each].quote is not None for each in (first, second))
