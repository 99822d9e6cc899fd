"""Few jobs learn at once what one of them showed; very many together, after a rest."""

from penstock.control.loop.lesson_pace import FEW, LessonPace


def test_few_are_told_every_time() -> None:
    pace = LessonPace()
    assert all(pace.may_tell("speed", "f", FEW, 5.0) for _ in range(3))


def test_many_are_told_again_after_a_rest() -> None:
    pace = LessonPace()
    assert pace.may_tell("speed", "f", 1000, 5.0)
    assert not pace.may_tell("speed", "f", 1000, 5.9)
    assert pace.may_tell("costs", "f", 1000, 5.9)
    assert pace.may_tell("speed", "other", 1000, 5.9)
    assert pace.may_tell("speed", "f", 1000, 6.1)


def test_what_is_over_is_forgotten() -> None:
    pace = LessonPace()
    for number in range(50):
        assert pace.may_tell("speed", f"f{number}", 1000, 10.0 * number)
    assert len(pace._rests_until) == 1
