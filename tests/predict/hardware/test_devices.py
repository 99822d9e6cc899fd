"""The datasheets: names people and drivers use, and what the numbers imply."""

from dataclasses import replace

import pytest

from penstock.core import InputError, UnknownNameError
from penstock.network import LINKS
from penstock.predict.hardware import DEVICES, Precision, device_named


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("h200", "h200"), ("H200", "h200"), ("NVIDIA H200", "h200"), ("NVIDIA H100 80GB HBM3", "h100"),
        ("a100", "a100-80gb"), ("A100-40GB", "a100-40gb"), ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("NVIDIA A100-PCIE-40GB", "a100-40gb"), ("Tesla V100-PCIE-32GB", "v100"), ("Tesla T4", "t4"),
        ("Quadro RTX 6000", "rtx6000"), ("910B", "ascend-910b"), ("cpu", "cpu"),
    ],
)  # fmt: skip
def test_devices_are_found_by_what_people_and_drivers_call_them(said: str, meant: str) -> None:
    assert device_named(said).name == meant


def test_an_unknown_device_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'h200'"):
        device_named("h20")


def test_a_device_like_nothing_we_know_is_to_be_profiled() -> None:
    with pytest.raises(UnknownNameError, match="penstock profile device"):
        device_named("quantum")


@pytest.mark.parametrize("name", DEVICES)
def test_every_entry_is_whole(name: str) -> None:
    chip = DEVICES[name]

    assert chip.link in LINKS
    assert chip.source
    assert 0 < chip.idle_w < chip.tdp_w
    assert chip.peak(Precision.BF16) >= chip.peak(Precision.FP32)


def test_a_precision_without_units_runs_at_the_fp32_rate() -> None:
    volta = device_named("v100")

    assert volta.peak(Precision.TF32) == volta.peak(Precision.BF16) == volta.vector_peak
    assert volta.peak(Precision.FP16) > 5 * volta.vector_peak


def test_small_cards_cannot_feed_their_peak() -> None:
    assert device_named("l4").power_bound < device_named("l4").vector_peak
    assert device_named("v100").power_bound > device_named("v100").vector_peak


def test_lanes_as_many_as_issue_slots_leave_none_for_loads() -> None:
    assert [device_named(name).issue_share for name in ("v100", "t4", "a100")] == [1.0, 1.0, 1.0]
    assert all(0.8 < device_named(name).issue_share < 0.95 for name in ("h100", "l4", "h200"))


def test_impossible_devices_are_refused() -> None:
    with pytest.raises(InputError, match="bandwidth"):
        replace(device_named("t4"), bandwidth=0.0)
    with pytest.raises(InputError, match="fp32"):
        replace(device_named("t4"), peaks=())
