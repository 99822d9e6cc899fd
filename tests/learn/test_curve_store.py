"""Measured points: merged, forgotten slowly, and shared by many processes."""

import math
import multiprocessing
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import CurveError, InputError, Source
from penstock.learn import CurveStore, Point, ProfileResult
from penstock.learn.points import merged


@pytest.fixture
def store(tmp_path: Path) -> CurveStore:
    return CurveStore(tmp_path / "state" / "curves.db", half_life_s=100.0, clock=lambda: 7.0)


def test_a_first_observation_is_kept_as_it_is(store: CurveStore) -> None:
    store.observe("job", "cpu", 2, rate=5.0, seconds=60, spread=0.5)

    expected = Point(count=2, rate=5.0, spread=0.5, seconds=60.0, updated_at=7.0)
    assert store.points("job", "cpu") == (expected,)
    assert CurveStore(store.path).points("job", "cpu") == (expected,)


def test_jobs_kinds_and_counts_are_kept_apart(store: CurveStore) -> None:
    store.observe("a", "cpu", 1, rate=1.0, seconds=1)
    store.observe("a", "gpu", 1, rate=2.0, seconds=1)
    store.observe("b", "cpu", 1, rate=3.0, seconds=1)
    store.observe("a", "cpu", 4, rate=4.0, seconds=1)

    assert [(point.count, point.rate) for point in store.points("a", "cpu")] == [(1, 1.0), (4, 4.0)]
    assert [point.rate for point in store.points("a", "gpu")] == [2.0]
    assert store.points("c", "cpu") == ()


def test_watching_for_a_half_life_halves_what_was_known(store: CurveStore) -> None:
    store.observe("job", "cpu", 1, rate=10.0, seconds=200)
    point = store.observe("job", "cpu", 1, rate=20.0, seconds=100)

    assert point.seconds == 200.0
    assert point.rate == pytest.approx(15.0)
    assert point.spread == pytest.approx(5.0)


def test_a_changed_speed_is_learned_and_the_doubt_passes(store: CurveStore) -> None:
    for _ in range(20):
        store.observe("job", "cpu", 1, rate=10.0, seconds=60, spread=0.1)
    doubtful = store.observe("job", "cpu", 1, rate=20.0, seconds=60, spread=0.1)
    for _ in range(20):
        sure = store.observe("job", "cpu", 1, rate=20.0, seconds=60, spread=0.1)

    assert doubtful.relative_spread > 0.2
    assert sure.rate == pytest.approx(20.0, rel=0.01)
    assert sure.relative_spread < 0.05


RESULTS = st.builds(
    ProfileResult,
    fingerprint=st.just("job"),
    kind=st.just("cpu"),
    count=st.just(1),
    rate=st.floats(1e-6, 1e6),
    seconds=st.floats(1e-3, 1e6),
    spread=st.floats(0, 1e3),
)


@given(st.lists(RESULTS, min_size=1, max_size=8))
def test_a_merged_rate_stays_between_what_was_seen(results: list[ProfileResult]) -> None:
    first = results[0]
    point = Point(count=1, rate=first.rate, spread=first.spread, seconds=first.seconds, updated_at=0)
    for result in results[1:]:
        point = merged(point, result, half_life_s=3600, at=0)

    low, high = min(result.rate for result in results), max(result.rate for result in results)
    assert low * (1 - 1e-9) <= point.rate <= high * (1 + 1e-9)
    assert 0 <= point.spread <= max(result.spread for result in results) + (high - low) + 1e-9
    assert math.isfinite(point.seconds)


@pytest.mark.parametrize(
    ("count", "rate", "seconds", "spread"),
    [
        (0, 1, 1, 0),
        (1, 0, 1, 0),
        (1, math.nan, 1, 0),
        (1, math.inf, 1, 0),
        (1, 1, 0, 0),
        (1, 1, math.inf, 0),
        (1, 1, 1, -1),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(
    store: CurveStore, count: int, rate: float, seconds: float, spread: float
) -> None:
    with pytest.raises(CurveError):
        store.observe("job", "cpu", count, rate=rate, seconds=seconds, spread=spread)
    assert store.points("job", "cpu") == ()


def test_several_results_are_recorded_together_or_not_at_all(store: CurveStore) -> None:
    def results() -> list[ProfileResult]:
        return [ProfileResult(fingerprint="job", kind="cpu", count=n, rate=n, seconds=1) for n in (1, 2, 4)]

    def interrupted() -> object:
        yield from results()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.record(interrupted())  # type: ignore[arg-type]
    assert store.points("job", "cpu") == ()

    store.record(results())
    assert len(store.points("job", "cpu")) == 3


def test_a_measured_curve_says_so(store: CurveStore) -> None:
    for count, rate in ((1, 10.0), (2, 18.0), (4, 30.0)):
        store.observe("job", "cpu", count, rate=rate, seconds=60)

    scaling = store.curve("job", "cpu", 4).scaling("cpu")

    assert scaling is not None
    assert (scaling.counts, scaling.rates, scaling.source) == ((1, 2, 4), (10.0, 18.0, 30.0), Source.MEASURED)


def test_one_count_that_was_not_measured_makes_it_a_prediction(store: CurveStore) -> None:
    for count, rate in ((1, 10.0), (3, 25.0)):
        store.observe("job", "cpu", count, rate=rate, seconds=60)

    scaling = store.curve("job", "cpu", 6).scaling("cpu")
    only_measured = store.curve("job", "cpu", 6, counts=[1, 3, 7]).scaling("cpu")

    assert scaling is not None
    assert (scaling.counts, scaling.source) == ((1, 2, 3, 4, 6), Source.PREDICTED)
    assert (scaling.rates[0], scaling.rates[2]) == (10.0, 25.0)
    assert 10.0 < scaling.rates[1] < 25.0 < scaling.rates[3] < 100 / 3
    assert only_measured is not None
    assert (only_measured.counts, only_measured.source) == ((1, 3), Source.MEASURED)


def test_counts_measured_beyond_the_bound_only_shape_the_curve(store: CurveStore) -> None:
    store.observe("job", "cpu", 16, rate=50.0, seconds=60)

    curve = store.curve("job", "cpu", 4)

    assert curve.scaling("cpu").counts == (1, 2, 4)  # type: ignore[union-attr]
    assert 50 / 16 < curve.rate(1, "cpu") < 50


def test_a_curve_that_falls_again_keeps_only_useful_levels(store: CurveStore) -> None:
    for count, rate in ((1, 10.0), (2, 15.0), (4, 12.0)):
        store.observe("job", "cpu", count, rate=rate, seconds=60)

    assert store.curve("job", "cpu", 4).levels("cpu") == ((1, 10.0), (2, 15.0))


def test_what_was_never_measured_has_no_curve_but_a_guess(store: CurveStore) -> None:
    store.observe("job", "gpu", 1, rate=10.0, seconds=60)

    with pytest.raises(CurveError, match="never measured"):
        store.curve("job", "cpu", 4)
    guessed = store.curve("job", "cpu", 4, guess=2.0)

    assert guessed.rate(1, "cpu") == pytest.approx(2.0)
    assert 2.0 < guessed.rate(4, "cpu") < 8.0
    assert guessed.scaling("cpu").source is Source.GUESSED  # type: ignore[union-attr]


def test_doubt_grows_away_from_measurements(store: CurveStore) -> None:
    assert store.uncertainty("job", "cpu", 1) == 1.0
    store.observe("job", "cpu", 1, rate=10.0, seconds=10_000, spread=0.5)

    doubts = [store.uncertainty("job", "cpu", count) for count in (1, 2, 4, 8, 1024)]

    assert doubts[0] == pytest.approx(0.05, abs=0.001)
    assert doubts == sorted(set(doubts))
    assert doubts[-1] < 1


def test_a_curve_says_which_counts_were_measured_and_doubts_the_others(store: CurveStore) -> None:
    store.observe("plain", "cpu", 1, rate=2.0, seconds=60)
    scaling = store.curve("plain", "cpu", max_count=8).scaling("cpu")
    assert scaling is not None
    assert (scaling.counts, scaling.measured) == ((1, 2, 4, 8), (1,))
    sure = [rate * (1 - doubt) for rate, doubt in zip(scaling.rates, scaling.doubts, strict=True)]
    assert all(1.8 < rate <= 2.0 for rate in sure), "a job may be no faster on more devices"
    store.observe("plain", "cpu", 2, rate=1.98, seconds=60)
    assert store.curve("plain", "cpu", max_count=8).scaling("cpu").measured == (1, 2)  # type: ignore[union-attr]
    assert store.curve("plain", "cpu", max_count=2).scaling("cpu").measured == ()  # type: ignore[union-attr]


def test_a_short_look_is_doubted(store: CurveStore) -> None:
    store.observe("short", "cpu", 1, rate=10.0, seconds=2)
    store.observe("long", "cpu", 1, rate=10.0, seconds=2000)

    assert store.uncertainty("short", "cpu", 1) > 0.1 > 0.01 > store.uncertainty("long", "cpu", 1)


@pytest.mark.parametrize("count", [0, -1])
def test_no_devices_have_no_curve(store: CurveStore, count: int) -> None:
    store.observe("job", "cpu", 1, rate=1.0, seconds=1)

    with pytest.raises(CurveError):
        store.curve("job", "cpu", count)
    with pytest.raises(CurveError):
        store.uncertainty("job", "cpu", count)
    with pytest.raises(CurveError):
        store.curve("job", "cpu", 4, counts=[8])


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "curves.db"
    file.write_text("these are my notes, do not overwrite them\n" * 100)

    with pytest.raises(InputError, match=r"curves\.db cannot be used"):
        CurveStore(file)
    assert file.read_text().startswith("these are my notes")


def test_a_place_that_cannot_hold_a_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(InputError):
        CurveStore(tmp_path / "file" / "curves.db")
    with pytest.raises(InputError):
        CurveStore(tmp_path)
    with pytest.raises(InputError):
        CurveStore(tmp_path / "curves.db", half_life_s=0)


def test_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    store = CurveStore(tmp_path / "curves.db")
    with sqlite3.connect(store.path) as database:
        database.execute("PRAGMA user_version = 9")
    database.close()

    with pytest.raises(InputError, match="newer Penstock"):
        CurveStore(store.path)


def _observe_often(path: Path, start: "multiprocessing.synchronize.Event") -> None:
    start.wait()
    store = CurveStore(path, half_life_s=1e12)
    for _ in range(50):
        store.observe("job", "cpu", 1, rate=10.0, seconds=1.0)


def test_many_processes_lose_no_observation(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    path = tmp_path / "curves.db"
    workers = [context.Process(target=_observe_often, args=(path, start)) for _ in range(4)]
    for worker in workers:
        worker.start()
    start.set()
    for worker in workers:
        worker.join(timeout=60)

    assert [worker.exitcode for worker in workers] == [0] * 4
    assert CurveStore(path).points("job", "cpu")[0].seconds == pytest.approx(200.0)
