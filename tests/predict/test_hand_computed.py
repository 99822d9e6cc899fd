"""Memory and energy against values worked out by hand."""

import pytest

from penstock.core import InputError
from penstock.predict.capture import MemoryUse, Setup, capture
from penstock.predict.hardware import Bound, ClassPower, device_named
from penstock.predict.lab.fitting.memory_fitting import MeasuredMemory, fit_memory
from penstock.predict.lab.fitting.power_fitting import MeasuredEnergy, fit_power
from penstock.predict.memory import MemoryModel

H200 = device_named("h200")
"""700 W, 75 W of them idle: 625 W between."""


def use(peak: int) -> MemoryUse:
    return MemoryUse(weights=1, gradients=1, optimizer=1, activations=1, peak=peak)


def test_memory_is_tensors_and_workspace_then_the_allocators_share_and_the_context() -> None:
    found = MemoryModel(workspace=2e8, fragmentation=1.1).predict(use(1_800_000_000))
    assert found.allocated == 2.0e9
    assert found.needed == pytest.approx(2.0e9 * 1.1 + 8e8)
    assert found.fits(3.1e9)
    assert not found.fits(2.9e9)


def test_a_memory_model_has_the_usual_workspace_and_a_margin_that_covers_everything() -> None:
    measured = [
        MeasuredMemory(use=use(1000), allocated=1100, reserved=2200),
        MeasuredMemory(use=use(1000), allocated=1300, reserved=1300),
        MeasuredMemory(use=use(2000), allocated=1900, reserved=2090),
    ]
    assert fit_memory(measured) == MemoryModel(workspace=100.0, fragmentation=pytest.approx(2.0))  # type: ignore[arg-type]
    assert fit_memory([]) == MemoryModel()


@pytest.mark.parametrize(("optimizer", "states"), [("sgd", 1), ("adamw", 2), ("adamw-foreach", 2)])
def test_weights_gradients_and_optimizer_states_of_one_layer(optimizer: str, states: int) -> None:
    import torch
    from torch import nn

    seen = capture(
        lambda batch: (nn.Linear(256, 512), torch.randn(batch, 256)), 8, Setup(precision="fp32", optimizer=optimizer)
    ).memory
    weights = 4 * (256 * 512 + 512)
    assert (seen.weights, seen.gradients, seen.optimizer) == (weights, weights, states * weights)
    assert seen.peak >= seen.weights + seen.gradients + seen.optimizer


def test_watts_of_a_data_sheet_are_shares_of_the_range_above_idle() -> None:
    power = ClassPower.of(H200)
    assert power.idle_w == 75.0
    assert power.watts == pytest.approx({
        Bound.COMPUTE: 637.5, Bound.L2: 543.75, Bound.DRAM: 481.25, Bound.UNDERUSED: 356.25, Bound.LATENCY: 231.25,
    })  # fmt: skip


def test_energy_adds_classes_and_idle_time() -> None:
    joules = ClassPower.of(H200).energy_j({Bound.COMPUTE: 2.0, Bound.DRAM: 1.0}, wall_s=4.0)
    assert joules == pytest.approx(2 * 637.5 + 481.25 + 75.0)
    assert ClassPower.of(H200).energy_j({}, wall_s=10.0) == 750.0


@pytest.mark.parametrize("seconds", [{Bound.DRAM: -1.0}, {Bound.DRAM: 2.0}])
def test_impossible_times_are_refused(seconds: dict[Bound, float]) -> None:
    with pytest.raises(InputError, match="no negative times"):
        ClassPower.of(H200).energy_j(seconds, wall_s=1.0)


def test_one_run_moves_its_class_by_what_it_weighs_against_the_data_sheet() -> None:
    """One second of memory-bound kernels at 600 W against 0.1 seconds' worth of 481.25 W."""
    fitted = fit_power([MeasuredEnergy(seconds={Bound.DRAM: 1.0}, wall_s=1.0, joules=600.0)], H200)
    assert fitted.watts[Bound.DRAM] == pytest.approx((600.0 + 0.1 * 481.25) / 1.1)
    assert fitted.watts[Bound.COMPUTE] == pytest.approx(637.5)


def test_no_class_draws_more_than_the_card_or_less_than_an_idle_one() -> None:
    high = fit_power([MeasuredEnergy(seconds={Bound.COMPUTE: 1.0}, wall_s=1.0, joules=5000.0)], H200)
    low = fit_power([MeasuredEnergy(seconds={Bound.COMPUTE: 1.0}, wall_s=1.0, joules=1.0)], H200)
    assert (high.watts[Bound.COMPUTE], low.watts[Bound.COMPUTE]) == (700.0, 75.0)
