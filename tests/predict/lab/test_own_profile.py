"""A profile of three minutes of random networks is complete: kernels, host costs, memory, operations."""

from dataclasses import asdict

import numpy as np
import pytest

from penstock.predict import device_named, fit_profile
from penstock.predict.capture import MemoryUse
from penstock.predict.iteration import HostCost
from penstock.predict.lab.fitting.boosting import BoostingOptions
from penstock.predict.lab.fitting.memory_fitting import MeasuredMemory, fit_memory
from penstock.predict.lab.measuring.resident_memory import forget_peak, resident_bytes
from penstock.predict.lab.records.kernel_rows import KernelRows
from penstock.predict.lab.records.measurements import MeasuredNetwork, Measurements
from penstock.predict.memory import MemoryModel
from tests.predict.kernels.made_up import measured, some_products
from tests.tools import needs

QUICK = BoostingOptions(trees=4, mean_trees=4, leaves=8, bins=16)
TRUE = HostCost(forward_s=3e-5, backward_s=2e-5, optimizer_s=5e-5, view_s=5e-6, iteration_s=4e-4)


def random_network(number: int, *, views: bool) -> MeasuredNetwork:
    rng = np.random.default_rng(number)
    issued = {kind: int(rng.integers(20, 400)) for kind in ("forward", "backward", "optimizer", "view")}
    issued |= {"iteration": 1}
    peak = int(rng.integers(1, 40)) << 28
    use = MemoryUse(weights=0, gradients=0, optimizer=0, activations=0, peak=peak, reserved=peak)
    issue_s = TRUE.seconds(issued) * float(np.exp(rng.normal(0, 0.02)))
    return MeasuredNetwork(
        label=f"cnn-{number}", batch=8, precision="bf16", layout="nchw", optimizer="sgd", held_out=False,
        seconds=3 * issue_s, issue_s=issue_s, kernel_s=2.9 * issue_s, peak_bytes=peak + (200 << 20),
        reserved_bytes=int(1.1 * (peak + (200 << 20))),
        issued=issued if views else {kind: count for kind, count in issued.items() if kind != "view"},
        followed=asdict(use) if views else None,
    )  # fmt: skip


def raw(*, views: bool) -> Measurements:
    rows = measured(some_products(60, seed=1))
    return Measurements(
        networks=tuple(random_network(number, views=views) for number in range(40)),
        rows=KernelRows(
            tuple(row.call for row in rows), np.array([row.seconds for row in rows]),
            np.ones(len(rows), dtype=np.int64), np.ones(len(rows)), ("",) * len(rows), np.arange(len(rows)) % 40,
        ),
        environment={"device": "cuda"},
    )  # fmt: skip


def test_host_costs_and_memory_come_from_random_networks() -> None:
    found = fit_profile("own", device_named("a100"), [raw(views=True)], options=QUICK)
    asked = {"forward": 200, "backward": 200, "optimizer": 200, "view": 200, "iteration": 1}
    assert found.iteration.host.seconds(asked) == pytest.approx(TRUE.seconds(asked), rel=0.1)
    assert abs(HostCost().seconds(asked) / TRUE.seconds(asked) - 1) > 0.3, "what is assumed where nothing was measured"
    assert found.iteration.host.doubt >= HostCost().doubt
    assert found.memory.workspace == pytest.approx(200 << 20)
    assert found.memory.fragmentation == pytest.approx(1.1, rel=0.01)
    assert found.measured


def test_a_small_network_with_a_large_workspace_does_not_say_what_large_ones_hold() -> None:
    def measured_memory(peak: int, reserved: int) -> MeasuredMemory:
        use = MemoryUse(weights=0, gradients=0, optimizer=0, activations=0, peak=peak, reserved=peak)
        return MeasuredMemory(use=use, allocated=peak, reserved=reserved)

    small, large = measured_memory(1 << 20, 1 << 28), measured_memory(8 << 30, 9 << 30)
    assert fit_memory([small, large]).fragmentation == pytest.approx(9 / 8)
    assert fit_memory([small]).fragmentation > 100


def test_operations_that_three_minutes_do_not_time_are_carried_over() -> None:
    found = fit_profile("own", device_named("a100"), [raw(views=True)], options=QUICK)
    assert any("cumsum" in key for key in found.iteration.kernels.operations.times)


def test_older_measurements_that_do_not_say_enough_change_nothing() -> None:
    found = fit_profile("own", device_named("a100"), [raw(views=False)], options=QUICK)
    assert found.iteration.host == HostCost()
    assert found.memory == MemoryModel()


def test_what_a_process_held_at_most_is_seen_after_it_was_given_back() -> None:
    forget_peak()
    before = resident_bytes()
    if before is None:
        needs.skip("this system does not report the memory of a process", "mount -t proc proc /proc")
    np.ones(8 << 20).sum()
    after = resident_bytes()
    assert after is not None
    assert after.peak - before.now > 60 << 20
