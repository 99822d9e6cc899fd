"""Devices nobody profiled: what is carried over to their data sheets, and whether bars hold what others measured."""

from dataclasses import replace

import numpy as np
import pytest
from bench.devices.__main__ import comparisons
from bench.devices.measured import measured_iterations

from penstock.predict import DeviceProfile, KernelCall, Precision, Setup, device_named, predict_model, profile_named
from penstock.predict.device_profile import shipped_profile
from penstock.predict.zoo import network_named
from tests.predict.kernels.made_up import gemm

OTHERS = ("a100", "v100", "rtx4090", "l40s", "h100", "b200", "mi300x", "910b", "t4")


@pytest.mark.parametrize("name", OTHERS)
def test_an_answer_says_that_it_comes_from_a_data_sheet_and_is_not_sure(name: str) -> None:
    seen = predict_model(network_named("resnet18").hook, 64, profile_named(name), Setup(precision="fp16"))
    (note,) = (note for note in seen.notes if "never measured" in note)
    assert note.startswith(seen.device)
    assert "data sheet" in note
    assert "h200" in note
    assert 1.4 < seen.first.high / seen.first.low < 4
    assert seen.first.time.beyond == pytest.approx(1.0)


def test_larger_devices_are_faster() -> None:
    hook, setup = network_named("resnet50").hook, Setup(precision="fp16", optimizer="sgd")
    times = [predict_model(hook, 256, profile_named(name), setup).first.seconds for name in ("t4", "v100", "a100")]
    times.append(predict_model(hook, 256, DeviceProfile.unprofiled(device_named("h100")), setup).first.seconds)
    assert times == sorted(times, reverse=True)
    assert times[0] > 5 * times[-1]


def test_shares_of_rates_carry_over_and_what_one_chip_taught_its_trees_does_not() -> None:
    known = shipped_profile("h200").iteration.kernels
    twice = replace(
        known.chip, name="twice", bandwidth=2 * known.chip.bandwidth, clock_hz=2 * known.chip.clock_hz,
        peaks=tuple((precision, 2 * rate) for precision, rate in known.chip.peaks), tdp_w=2 * known.chip.tdp_w,
    )  # fmt: skip
    carried, calls = known.carried_to(twice), [gemm(8192, 8192, 8192), gemm(512, 512, 512)]
    same = known.carried_to(known.chip)
    assert np.allclose(carried.predict(calls).mean_s, same.predict(calls).mean_s / 2, rtol=0.02)
    assert not carried.profiled
    assert not carried.predict(calls).in_range.any()
    assert all(not model.usual and model.layer_memory is None for model in carried.families.values())


def test_single_operations_go_by_the_bandwidth_of_the_other_device() -> None:
    call = KernelCall(
        family="operation", dims=(1 << 26, 64), precision=Precision.FP32, flops=2.0**26, read_bytes=2.0**28,
        written_bytes=2.0**28, variant="cumsum",
    )  # fmt: skip
    known = shipped_profile("h200").iteration.kernels
    slow = replace(known.chip, name="slow", bandwidth=known.chip.bandwidth / 4)
    here, there = known.predict([call]), known.carried_to(slow).predict([call])
    assert there.seen[0]
    assert 2 < there.mean_s[0] / here.mean_s[0] < 4.1
    assert there.high[0] / there.low[0] > here.high[0] / here.low[0]


def test_bars_hold_what_others_measured_on_seven_devices() -> None:
    """BERT-large in fp32, forward and backward: V100, A100, H100, L4, three generations of AMD's."""
    some = [
        each
        for each in measured_iterations()
        if (each.source, each.network, each.part, each.batch) == ("NeuSight", "bert_large", "gradients", 8)
    ]
    compared = comparisons(some)
    assert len({each.measured.device for each in compared}) == 7
    assert sum(each.inside for each in compared) >= 6
    assert float(np.mean([abs(each.off) for each in compared])) < 0.15
