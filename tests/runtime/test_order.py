"""The order of samples depends on the seed and the epoch, and on nothing else."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import InputError
from penstock.runtime.training.order import SampleOrder, seed_step


@given(samples=st.integers(1, 200), batch=st.integers(1, 64), size=st.integers(1, 12), epoch=st.integers(0, 3))
def test_any_world_sees_every_sample_of_an_epoch_once(samples: int, batch: int, size: int, epoch: int) -> None:
    order = SampleOrder(samples=samples, batch=batch, seed=5)
    seen: list[int] = []
    for step in range(epoch * order.steps_per_epoch, (epoch + 1) * order.steps_per_epoch):
        shares = [order.share(step, rank, size) for rank in range(size)]
        together = [index for share in shares for index in share.indices[: share.counted]]
        assert together == order.indices(step)
        assert max(share.counted for share in shares) - min(share.counted for share in shares) <= 1
        assert all(share.indices for share in shares)
        assert {share.of for share in shares} == {len(together)}
        seen += together
    assert sorted(seen) == list(range(samples))


def test_epochs_and_seeds_differ_and_repeat() -> None:
    order = SampleOrder(samples=100, batch=100, seed=1)
    assert order.indices(0) != order.indices(1)
    assert order.indices(0) == SampleOrder(samples=100, batch=100, seed=1).indices(0)
    assert order.indices(0) != SampleOrder(samples=100, batch=100, seed=2).indices(0)
    assert SampleOrder(samples=5, batch=2, shuffle=False).indices(1) == [2, 3]


def draws(seed: int, step: int, rank: int) -> tuple[float, float, float]:
    seed_step(seed, step, rank)
    return torch.rand(1).item(), random.random(), float(np.random.rand())


def test_draws_of_a_step_repeat_and_differ_between_steps_ranks_and_seeds() -> None:
    assert draws(1, 2, 3) == draws(1, 2, 3)
    everything = [draws(seed, step, rank) for seed in range(3) for step in range(5) for rank in range(4)]
    assert len({number for numbers in everything for number in numbers}) == 3 * len(everything)


@pytest.mark.parametrize(("samples", "batch"), [(0, 1), (5, 0), (5, -1)])
def test_impossible_orders_are_refused(samples: int, batch: int) -> None:
    with pytest.raises(InputError):
        SampleOrder(samples=samples, batch=batch)
