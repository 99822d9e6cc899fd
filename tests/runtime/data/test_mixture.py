"""Shares are kept at every moment, by everybody in the same order, for as long as one trains."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import InputError
from penstock.data import Mixture, TokenDataset
from penstock.runtime.data.reading.mixture import PERIOD, ShareSchedule
from tests.runtime.data.corpora import documents, write


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[TokenDataset]:
    folder = tmp_path_factory.mktemp("parts")
    for number, count in enumerate((200, 60, 30)):
        write(folder / str(number), documents(count, seed=number))
    return [TokenDataset(folder / str(number), sequence=32) for number in range(3)]


@settings(max_examples=20)
@given(weights=st.lists(st.floats(0.01, 100), min_size=1, max_size=6))
def test_everybody_is_within_a_sample_of_its_share_all_the_time(weights: list[float]) -> None:
    schedule = ShareSchedule.of(weights)
    shares = schedule.counts / schedule.counts.sum()
    given_so_far = np.cumsum(schedule.whose[:, None] == np.arange(len(weights)), axis=0)
    deserved = shares * np.arange(1, len(schedule.whose) + 1)[:, None]
    assert np.abs(given_so_far - deserved).max() < max(1.0, len(weights) / 2)
    assert np.abs(shares - np.array(weights) / sum(weights)).max() <= len(weights) / PERIOD
    for who, count in enumerate(schedule.counts):
        assert schedule.rank[schedule.whose == who].tolist() == list(range(count))


def test_round_weights_give_short_exact_schedules() -> None:
    schedule = ShareSchedule.of([0.7, 0.2, 0.1])
    assert schedule.counts.tolist() == [7, 2, 1]
    assert ShareSchedule.of([1, 1]).whose.tolist() == [0, 1]


def test_a_mixture_goes_through_each_part_in_the_part_s_own_order(parts: list[TokenDataset]) -> None:
    mixture = Mixture(dict(zip(parts, (6, 3, 1), strict=True)))
    length = len(mixture)
    assert length == sum(len(part) for part in parts)
    order = mixture.order(5)
    samples = np.concatenate([order.stretch(epoch, 0, length) for epoch in range(3)])
    bases = np.cumsum([0, *(len(part) for part in parts)])
    for number, part in enumerate(parts):
        mine = samples[(samples >= bases[number]) & (samples < bases[number + 1])] - bases[number]
        assert len(mine) == pytest.approx(len(samples) * (0.6, 0.3, 0.1)[number], abs=1)
        for epoch in range(len(mine) // len(part)):
            once = mine[epoch * len(part) : (epoch + 1) * len(part)]
            assert sorted(once.tolist()) == list(range(len(part)))
    middle = order.stretch(1, 100, 200)
    assert middle.tolist() == samples[length + 100 : length + 200].tolist()
    assert mixture.order(6).stretch(0, 0, length).tolist() != samples[:length].tolist()


def test_its_samples_are_those_of_its_parts(parts: list[TokenDataset]) -> None:
    mixture = Mixture({parts[0]: 1, parts[1]: 2})
    rows = mixture.read([0, len(parts[0]), len(mixture) - 1])
    for row, (part, index) in enumerate([(0, 0), (1, 0), (1, len(parts[1]) - 1)]):
        for ours, theirs in zip(rows, parts[part][index], strict=True):
            assert np.array_equal(ours[row], theirs)
    assert np.array_equal(mixture[-1].tokens, parts[1][-1].tokens)
    with pytest.raises(IndexError):
        mixture[len(mixture)]


def test_blocks_that_come_next_are_told_in_the_mixture_s_own_numbers(parts: list[TokenDataset]) -> None:
    mixture = Mixture({parts[0]: 1, parts[2]: 1})
    order = mixture.order(0)
    near = {sample for first, last in order.blocks_at(0, 0) for sample in range(first, last)}
    assert set(order.stretch(0, 0, 20).tolist()) <= near
    for first, last in order.blocks_at(1, 30):
        mixture.expect(first, last)


def test_what_cannot_be_mixed_is_refused(parts: list[TokenDataset], tmp_path: Path) -> None:
    write(tmp_path / "set", documents(50), vocabulary=2000)
    with pytest.raises(InputError, match="mixture of nothing"):
        Mixture({})
    for weight in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="weights above 0"):
            Mixture({parts[0]: weight})
    with pytest.raises(InputError, match="one sequence length"):
        Mixture({parts[0]: 1, TokenDataset(parts[1].location, sequence=16): 1})
    with pytest.raises(InputError, match="different tokenizers"):
        Mixture({parts[0]: 1, TokenDataset(tmp_path / "set", sequence=32): 1})


def test_training_is_not_resumed_with_other_weights(parts: list[TokenDataset]) -> None:
    mixture = Mixture({parts[0]: 1, parts[1]: 2})
    mixture.load_state_dict(Mixture({parts[0]: 1, parts[1]: 2}).state_dict())
    with pytest.raises(InputError, match="the same mixture"):
        mixture.load_state_dict(Mixture({parts[0]: 2, parts[1]: 1}).state_dict())
