"""Who is called slow: property tests of the comparison on made-up times."""

import random

from hypothesis import given
from hypothesis import strategies as st

from penstock.backends.agent.watch.stragglers import FINE, IN_A_ROW, StragglerWatch, Straggling, compare
from penstock.core import StepTimes


def times(own: float, *, step: int = 100, input_s: float = 0.0, wait: float = 0.0, samples: float = 8.0) -> StepTimes:
    whole = own + wait
    return StepTimes(
        step=step, steps=50, step_s=whole, compute_s=own - input_s, input_s=input_s, wait_s=wait, samples=samples
    )


def rounds(watch: StragglerWatch, count: int, own: dict[str, float], seed: int = 0, noise: float = 0.0, first: int = 0):
    """So many comparisons of workers that each need about so long; the news of all of them."""
    draw = random.Random(seed)
    news: list[Straggling] = []
    for number in range(first, first + count):
        for worker, mean in own.items():
            told = times(mean * (1.0 + draw.uniform(-noise, noise)), step=50 * (number + 2))
            news += watch.take(worker, told, len(own))
    return news


@given(st.integers(2, 16), st.floats(1e-4, 30.0), st.floats(0.0, 0.1), st.integers(0, 10_000))
def test_workers_that_differ_by_noise_are_all_fine(count: int, mean: float, noise: float, seed: int) -> None:
    assert rounds(StragglerWatch(), 20, {f"w{i}": mean for i in range(count)}, seed, noise) == []


@given(st.integers(2, 16), st.floats(1e-4, 30.0), st.floats(1.6, 10.0), st.integers(0, 10_000))
def test_a_slow_worker_is_told_once_with_its_factor(count: int, mean: float, factor: float, seed: int) -> None:
    own = {f"w{i}": mean for i in range(count)} | {"w1": mean * factor}
    (found,) = rounds(StragglerWatch(), 20, own, seed, noise=0.03)
    assert (found.worker, found.cause, found.is_over, found.since) == ("w1", "compute", False, 50)
    assert abs(found.factor / factor - 1.0) < 0.1


@given(st.integers(0, 10_000))
def test_one_bad_moment_is_no_straggler(seed: int) -> None:
    watch = StragglerWatch()
    news = rounds(watch, 5, {"w0": 1.0, "w1": 1.0, "w2": 1.0}, seed, 0.02)
    news += rounds(watch, IN_A_ROW - 1, {"w0": 1.0, "w1": 1.0, "w2": 4.0}, seed, 0.02)
    assert news + rounds(watch, 5, {"w0": 1.0, "w1": 1.0, "w2": 1.0}, seed, 0.02) == []


def test_who_hovers_around_the_limit_is_told_once_and_taken_back_once() -> None:
    watch = StragglerWatch()
    slow, between, fine = ({"w0": 1.0, "w1": 1.0, "w2": factor} for factor in (1.5, 0.5 * (FINE + 1.3), 1.0))
    news = rounds(watch, IN_A_ROW, slow)
    for _ in range(10):
        news += rounds(watch, 1, between) + rounds(watch, 2, slow)
    assert [(one.worker, one.is_over) for one in news] == [("w2", False)]
    assert watch.factor_of("w2") is not None
    assert [(one.worker, one.is_over) for one in rounds(watch, IN_A_ROW + 3, fine)] == [("w2", True)]
    assert watch.factor_of("w2") is None


def test_slow_storage_is_told_from_a_slow_device() -> None:
    watch = StragglerWatch()
    news = []
    for _ in range(IN_A_ROW):
        news += watch.take("w0", times(1.0, input_s=0.1), 2) + watch.take("w1", times(2.0, input_s=1.1), 2)
    assert [(one.worker, one.cause) for one in news] == [("w1", "input")]


def test_a_larger_share_of_the_batch_is_no_fault() -> None:
    twice = times(2.0, samples=2.0)
    assert compare(twice, [times(1.0, samples=1.0)]) == (1.0, False)
    assert compare(times(4.0, samples=2.0), [times(1.0, samples=1.0)]) == (2.0, True)


def test_a_new_world_is_compared_anew() -> None:
    watch = StragglerWatch()
    rounds(watch, IN_A_ROW - 1, {"w0": 1.0, "w1": 3.0})
    watch.begin()
    assert rounds(watch, IN_A_ROW - 1, {"w0": 1.0, "w1": 3.0}) == []
