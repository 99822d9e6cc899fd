"""An iteration takes the longer of kernels and host; one measurement corrects the part it says something about."""

import math
from dataclasses import replace

import pytest

from penstock.core import InputError
from penstock.predict.capture import Capture, CountedCall, MemoryUse, Setup, TrainingPhase, capture
from penstock.predict.hardware import device_named
from penstock.predict.iteration import HOST, HostCost, IterationModel
from penstock.predict.kernels import KernelCall, KernelModel, Precision
from penstock.predict.lab.fitting.host_cost_fitting import fit_host_costs, fit_host_of_gpu
from penstock.predict.lab.fitting.memory_fitting import MeasuredMemory, fit_memory
from penstock.predict.zoo import network_named

MODEL = IterationModel(kernels=KernelModel.unprofiled(device_named("a100")), gap_s=0.0)


def _product(size: int, count: int, dispatches: int) -> Capture:
    call = KernelCall(
        family="gemm", dims=(1, size, size, size), precision=Precision.BF16, flops=2.0 * size**3,
        read_bytes=4.0 * size**2, written_bytes=2.0 * size**2, variant="nn",
    )  # fmt: skip
    use = MemoryUse(weights=1, gradients=1, optimizer=1, activations=1, peak=10**9)
    return Capture(
        calls=(CountedCall(call=call, phase=TrainingPhase.FORWARD, count=count),),
        dispatches={TrainingPhase.FORWARD: dispatches}, memory=use, parameters=1, tensors=1, gradient_bytes=1,
    )  # fmt: skip


def test_large_kernels_hide_the_host_and_small_ones_do_not() -> None:
    large, small = MODEL.predict(_product(8192, 10, 10)), MODEL.predict(_product(64, 1000, 1000))
    assert large.seconds == pytest.approx(large.device_s, rel=1e-3)
    assert large.dominated_by == "compute"
    assert small.dominated_by == HOST
    assert small.seconds == pytest.approx(small.host_s, rel=0.05)


def test_on_a_cpu_both_add_up() -> None:
    serial = IterationModel(kernels=MODEL.kernels, gap_s=0.0, serial=True)
    time = serial.predict(_product(64, 1000, 1000))
    assert time.seconds == pytest.approx(time.device_s + time.host_s)


def test_a_measured_iteration_is_predicted_exactly_afterwards_and_corrects_others() -> None:
    small, large = _product(4096, 10, 10), _product(4096, 40, 10)
    corrected = MODEL.calibrated(small, 2 * MODEL.predict(small).seconds)
    assert corrected.predict(small).seconds == pytest.approx(2 * MODEL.predict(small).seconds, rel=0.005)
    assert corrected.predict(large).seconds == pytest.approx(2 * MODEL.predict(large).seconds, rel=0.01)
    for wrong in (0.0, -1.0, math.nan):
        with pytest.raises(InputError, match="positive, finite"):
            MODEL.calibrated(small, wrong)


def test_a_host_bound_measurement_corrects_the_host_alone() -> None:
    bound, free = _product(64, 1000, 1000), _product(8192, 10, 10)
    corrected = MODEL.calibrated(bound, 1.3 * MODEL.predict(bound).host_s)
    assert 1.1 < corrected.host_factor < 1.3
    assert corrected.device_factor == pytest.approx(1.0, rel=0.01)
    assert corrected.predict(free).seconds == pytest.approx(MODEL.predict(free).seconds, rel=0.01)


def test_where_both_may_have_been_the_slower_one_neither_is_blamed_for_all_of_it() -> None:
    even = _product(4096, 100, 100)
    host = HostCost(forward_s=MODEL.predict(even).device_s / 100 * 1.1)
    model = IterationModel(kernels=MODEL.kernels, gap_s=0.0, host=host)
    measured = model.predict(even).device_s * 1.01
    corrected = model.calibrated(even, measured)
    assert corrected.predict(even).seconds == pytest.approx(measured, rel=0.1)
    assert 0.5 < corrected.device_factor < 1.1
    assert 0.5 < corrected.host_factor <= 1.0


def test_two_sizes_tell_the_device_from_the_host() -> None:
    small, large, between = _product(64, 1000, 1000), _product(8192, 10, 10), _product(4096, 10, 10)
    slow, fast = 1.5 * MODEL.predict(small).host_s, 0.8 * MODEL.predict(large).device_s
    corrected = MODEL.calibrated(small, slow, (large, fast))
    assert 1.15 < corrected.host_factor < 1.5
    assert corrected.device_factor == pytest.approx(0.8, rel=0.02)
    assert corrected.predict(between).device_s == pytest.approx(0.8 * MODEL.predict(between).device_s, rel=0.02)


def test_parts_add_up_to_the_whole() -> None:
    seen = capture(network_named("resnet18").hook, 64, Setup())
    time = MODEL.predict(seen)
    for parts in (time.by_bound, time.by_family, time.by_phase):
        assert sum(parts.values()) == pytest.approx(time.device_s)
    assert time.low < time.seconds < time.high
    assert time.beyond == 1.0  # nothing of an unprofiled device was measured


def test_host_costs_are_recovered_from_what_they_made() -> None:
    truth = HostCost(forward_s=2e-5, backward_s=1e-5, optimizer_s=0.0, convolution_s=8e-5)
    counts = [
        {"forward": 100, "backward": 200, "convolution": 30, "optimizer": 3},
        {"forward": 900, "backward": 1500, "convolution": 0, "optimizer": 2},
        {"forward": 50, "backward": 120, "convolution": 50, "optimizer": 8},
        {"forward": 400, "backward": 300, "convolution": 10, "optimizer": 100},
    ]
    found = fit_host_costs([(each, truth.seconds(each)) for each in counts])
    for each in counts:
        assert found.seconds(each) == pytest.approx(truth.seconds(each), rel=1e-6)
    assert fit_host_costs([]) == HostCost()


def test_memory_learns_workspace_and_fragmentation() -> None:
    use = MemoryUse(weights=1, gradients=1, optimizer=1, activations=1, peak=10**9)
    model = fit_memory([MeasuredMemory(use=use, allocated=1_100_000_000, reserved=1_210_000_000)] * 3)
    found = model.predict(use)
    assert found.allocated == pytest.approx(1.1e9)
    assert found.needed > 1.21e9
    assert found.fits(80e9)
    assert not found.fits(1e9)


def test_a_host_that_was_watched_by_name_is_predicted_by_name() -> None:
    by_name = {"addmm": 4e-5, "mul": 1e-5, "convolution": 9e-5}
    truth = HostCost(calls_share=0.7, view_s=3e-6, module_s=5e-6, iteration_s=3e-4, by_name=by_name)
    assert truth.calls_s({"addmm": 2, "never_timed": 1}) == pytest.approx(2 * 4e-5 + 4e-5)
    seen = [
        {"calls": truth.calls_s({"addmm": a, "mul": b, "convolution": c}), "view": 7 * a, "module": b, "iteration": 1}
        for a, b, c in ((9, 0, 40), (200, 100, 0), (20, 300, 5), (1, 1, 1), (90, 30, 90))
    ]
    kept = {"forward_s": 0.0, "backward_s": 0.0, "optimizer_s": 0.0, "convolution_s": 0.0, "listed_s": 0.0}
    taken = [replace(truth, **kept).seconds(issued) for issued in seen]
    found = fit_host_of_gpu(list(zip(seen, taken, strict=True)), 0.2, by_name)
    assert found.forward_s == found.convolution_s == 0.0
    for issued, seconds in zip(seen, taken, strict=True):
        assert found.seconds(issued) == pytest.approx(seconds, rel=0.12)
