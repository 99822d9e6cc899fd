"""The order of packed samples is a function of (seed, epoch, position): a permutation that can begin anywhere."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.data.reading.windowed_order import BlockPermutation, WindowedOrder, shuffled

sizes = st.integers(1, 700)
GOLDEN = [19, 11, 10, 9, 18, 14, 6, 8, 12, 13, 7, 3, 5, 17, 15, 4, 16, 0, 1, 2]
GOLDEN_HASH = "6212cda8b875dbfa"


@given(samples=sizes, block=st.integers(1, 40), window=st.integers(1, 5), seed=st.integers(0, 2**40))
def test_every_epoch_has_every_sample_once(samples: int, block: int, window: int, seed: int) -> None:
    order = WindowedOrder(samples=samples, block=block, seed=seed, window_blocks=window)
    for epoch in (0, 3):
        assert sorted(order.stretch(epoch, 0, samples).tolist()) == list(range(samples))


@given(samples=sizes, block=st.integers(1, 40), start=st.integers(0, 700), length=st.integers(0, 200))
def test_any_stretch_is_a_part_of_the_whole(samples: int, block: int, start: int, length: int) -> None:
    start = min(start, samples)
    stop = min(start + length, samples)
    whole = WindowedOrder(samples=samples, block=block, seed=3, window_blocks=4).stretch(1, 0, samples)
    alone = WindowedOrder(samples=samples, block=block, seed=3, window_blocks=4).stretch(1, start, stop)
    assert alone.tolist() == whole[start:stop].tolist()


@given(count=st.integers(1, 5000), key=st.integers(0, 2**63))
def test_blocks_are_permuted_and_found_again(count: int, key: int) -> None:
    permutation = BlockPermutation(count, key)
    some = range(0, count, max(1, count // 50))
    assert len({permutation(number) for number in some}) == len(some)
    assert all(permutation.inverse(permutation(number)) == number for number in some)
    assert all(0 <= permutation(number) < count for number in some)


def test_seeds_and_epochs_differ() -> None:
    def of(seed: int, epoch: int) -> list[int]:
        return WindowedOrder(samples=1000, block=10, seed=seed).stretch(epoch, 0, 1000).tolist()

    assert of(1, 0) == of(1, 0)
    assert len({tuple(of(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


def test_samples_of_a_window_come_from_all_over_the_data_in_whole_blocks() -> None:
    order = WindowedOrder(samples=100_000, block=100, seed=0)
    window = order.stretch(0, 0, order.window)
    blocks = np.unique(window // 100)
    assert len(blocks) == 16
    assert blocks.max() - blocks.min() > 500
    expected = [sample for first, last in order.blocks_at(0, 5) for sample in range(first, last)]
    assert sorted(window.tolist()) == sorted(expected)
    assert np.abs(np.diff(window)).mean() > 1000


def test_the_order_is_the_one_that_it_was() -> None:
    """Trainings that began under an earlier version go on with the same samples."""
    assert WindowedOrder(samples=20, block=3, seed=7, window_blocks=2).stretch(2, 0, 20).tolist() == GOLDEN
    whole = WindowedOrder(samples=10**6, block=512, seed=1).stretch(0, 0, 10**5)
    assert hashlib.sha256(whole.astype("<i8").tobytes()).hexdigest()[:16] == GOLDEN_HASH


def test_a_billion_samples_need_no_more_memory_than_a_window() -> None:
    order = WindowedOrder(samples=10**9, block=512, seed=5)
    first, last = order.stretch(0, 0, 64), order.stretch(3, 10**9 - 64, 10**9)
    assert len(set(first.tolist())) == len(set(last.tolist())) == 64
    assert sum(window.nbytes for window in order._windows.values()) <= 3 * 8 * order.window


def test_places_in_a_shuffle_are_used_evenly() -> None:
    counts = np.zeros((8, 8))
    for key in range(4000):
        counts[np.arange(8), shuffled(8, key)] += 1
    assert counts.min() > 400
    assert counts.max() < 600


@pytest.mark.parametrize("samples", [1, 2])
def test_the_smallest_data_has_an_order(samples: int) -> None:
    assert sorted(WindowedOrder(samples=samples, block=64, seed=1).stretch(0, 0, samples)) == list(range(samples))
