"""Few pages are up to date at once; many share what there is."""

from penstock.web.refresh_pace import RefreshPace


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


def after(pages: int, takes_s: float) -> float:
    clock = Clock()
    pace = RefreshPace(0.25, clock)
    for _ in range(pages):
        pace.opened()
    for _ in range(100):
        with pace.refreshing():
            clock.time += takes_s
    return pace.pause_s


def test_a_few_pages_look_as_soon_as_something_happens() -> None:
    assert after(3, 0.005) == 0.25


def test_many_pages_together_take_a_quarter_of_the_time() -> None:
    pause = after(200, 0.005)
    assert 3.9 < pause < 4.1
    assert 200 * 0.005 / pause < 0.26


def test_nobody_waits_for_ever_and_pages_that_close_make_room() -> None:
    assert after(5000, 1.0) == 15.0
    pace = RefreshPace(0.25)
    pace.opened()
    pace.closed()
    assert pace.pause_s == 0.25


def test_pages_that_wait_long_ask_less_often_whether_it_is_time() -> None:
    clock = Clock()
    pace = RefreshPace(0.25, clock)
    pace.opened()
    assert pace.tick_s == 0.25
    for _ in range(100):
        with pace.refreshing():
            clock.time += 60.0
    assert pace.tick_s == pace.pause_s / 4
