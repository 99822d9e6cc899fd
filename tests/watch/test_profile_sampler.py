"""Profiles of real steps, as often as their cost allows."""

import pytest
import torch
from torch import nn
from torch._C._autograd import _profiler_enabled

from penstock.core import Hotspots
from penstock.runtime.watch.hotspot_table import INPUT
from penstock.runtime.watch.profile_sampler import STEPS, ProfileSampler, marked


def train(sampler: ProfileSampler, steps: int) -> list[Hotspots]:
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(256, 64)
    found = []
    for number in range(steps):
        sampler.before_step()
        with marked(INPUT):
            batch = data[torch.randperm(256)[:64]]
        model(batch).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if (table := sampler.after_step(number, checkpoint_s=0.25)) is not None:
            found.append(table)
    sampler.close()
    assert not _profiler_enabled()
    return found


@pytest.fixture(autouse=True)
def _quiet(capfd: pytest.CaptureFixture[str]) -> None:
    """The profiler's library writes a line of its own."""


def test_a_profile_shows_what_a_step_does() -> None:
    sampler = ProfileSampler(torch.device("cpu"), budget=1e9, first_cost_s=0.0)
    (first, *_) = train(sampler, 12)
    assert (first.step, first.steps, first.device, first.checkpoint_s) == (1, STEPS, "cpu", 0.25)
    parts = (first.input_s, first.host_s, first.kernels_s, first.communication_s, first.checkpoint_s)
    assert sum(parts) == pytest.approx(first.step_s)
    assert first.input_s > 0.0
    assert first.kernels_s > 0.0
    assert first.communication_s == 0.0
    assert any("linear" in one.name or "Addmm" in one.name for one in first.operators)
    assert 0.0 < first.cost <= 1.0


def test_what_a_profile_has_cost_puts_the_next_one_off() -> None:
    sampler = ProfileSampler(torch.device("cpu"), budget=0.005, first_cost_s=0.0)
    assert len(train(sampler, 30)) == 1
    assert sampler.cost > 0.005


def test_a_script_that_profiles_itself_is_left_alone() -> None:
    sampler = ProfileSampler(torch.device("cpu"), budget=1e9, first_cost_s=0.0)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        sampler.before_step()
        sampler.after_step(0, checkpoint_s=0.0)
        sampler.before_step()
        assert sampler.cost == 0.0
