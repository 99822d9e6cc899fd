"""How long jobs stand still: measured from reports, kept, and expected of the next one."""

from pathlib import Path

import pytest

from penstock.core import InputError, Span
from penstock.learn import CostStore, Delay, DelayMeter
from penstock.learn.delays import KEPT, PRIOR


@pytest.fixture
def store(tmp_path: Path) -> CostStore:
    return CostStore(tmp_path / "curves.db")


def test_where_nothing_was_seen_the_prior_holds(store: CostStore) -> None:
    assert store.costs("gpt", "cpu") == PRIOR
    assert PRIOR.start.likely > 0


def test_the_middle_is_likely_and_the_longest_with_something_on_top_is_the_most(store: CostStore) -> None:
    for seconds in (10.0, 3.0, 2.0, 3.0, 4.0):
        store.observe("gpt", "cpu", Delay.START, seconds)
    assert store.costs("gpt", "cpu").start == Span(3.0, 10.0 * 1.1)
    assert store.costs("gpt", "cpu").end == PRIOR.end


def test_one_look_is_trusted_less_than_many(store: CostStore) -> None:
    store.observe("gpt", "cpu", Delay.START, 4.0)
    once = store.costs("gpt", "cpu").start
    for _ in range(7):
        store.observe("gpt", "cpu", Delay.START, 4.0)
    assert once.most > store.costs("gpt", "cpu").start.most > 4.0


def test_a_machine_that_got_slower_is_slower_for_everybody(tmp_path: Path) -> None:
    hour = 3600.0
    now = [0.0]
    store = CostStore(tmp_path / "curves.db", clock=lambda: now[0])
    for name in ("gpt", "cnn"):
        for seconds in (4.0, 4.0, 4.0, 4.0, 4.0):
            store.observe(name, "cpu", Delay.START, seconds)
    now[0] += hour
    for _ in range(2):
        store.observe("gpt", "cpu", Delay.START, 8.0)
    assert store.costs("cnn", "cpu").start.likely == 8.0
    now[0] += hour
    assert store.costs("cnn", "cpu").start.likely == 4.0, "that was an hour ago"


def test_only_the_newest_count(store: CostStore) -> None:
    for seconds in (*([60.0] * KEPT), *([6.0] * KEPT)):
        store.observe("gpt", "cpu", Delay.START, seconds)
    assert store.costs("gpt", "cpu").start.most < 7.0


def test_another_job_is_expected_to_do_as_others_did_on_the_same_kind(store: CostStore) -> None:
    store.observe("gpt", "cpu", Delay.START, 8.0)
    assert store.costs("new", "cpu").start.likely == 8.0
    assert store.costs("new", "gpu") == PRIOR
    store.observe("new", "cpu", Delay.START, 2.0)
    assert store.costs("new", "cpu").start.likely == 2.0


def test_what_is_kept_outlives_the_process(store: CostStore, tmp_path: Path) -> None:
    store.observe("gpt", "cpu", Delay.END, 1.0)
    assert CostStore(tmp_path / "curves.db").costs("gpt", "cpu").end.likely == 1.0


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_nonsense_is_refused(store: CostStore, seconds: float) -> None:
    with pytest.raises(InputError, match="0 or more seconds"):
        store.observe("gpt", "cpu", Delay.START, seconds)


def test_a_start_is_what_passed_before_the_steps_that_were_made() -> None:
    """Devices at 100; training began at 107 with ten steps a second, but only every fiftieth is told of."""
    meter = DelayMeter(100.0, 0)
    assert meter.progress(112.0, 50) is None
    found = meter.progress(117.0, 100)
    assert found == (Delay.START, pytest.approx(7.0))
    assert meter.progress(122.0, 150) is None, "a start is measured once"


def test_an_end_is_what_followed_the_last_step() -> None:
    meter = DelayMeter(0.0, 0)
    for second in range(1, 10):
        meter.progress(float(second), 10 * second)
    assert meter.ended(13.5, 100) == pytest.approx(3.5), "the last ten steps took another second"
    assert meter.ended(13.5, None) is None


def test_a_change_is_measured_from_its_decision() -> None:
    meter = DelayMeter(0.0, 0)
    for second in range(1, 6):
        meter.progress(float(second), 10 * second)
    meter.begins(Delay.RESIZE, 5.0)
    assert meter.progress(11.0, 51) is None
    assert meter.progress(12.0, 71) == (Delay.RESIZE, pytest.approx(6.0 - 1 / 20))


def test_a_run_that_tells_nothing_teaches_nothing() -> None:
    meter = DelayMeter(0.0, 0)
    assert meter.ended(50.0, 100) is None
    assert meter.progress(5.0, 3) is None
    assert meter.progress(6.0, 3) is None, "no step was made in between"
