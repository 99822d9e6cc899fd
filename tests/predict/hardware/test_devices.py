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
        ("NVIDIA A100-PCIE-40GB", "a100-40gb-pcie"), ("NVIDIA A100 80GB PCIe", "a100-80gb-pcie"),
        ("Tesla V100-PCIE-32GB", "v100-pcie"), ("Tesla V100-SXM2-16GB", "v100"), ("Tesla T4", "t4"),
        ("Quadro RTX 6000", "rtx6000"), ("910B", "ascend-910b"), ("cpu", "cpu"), ("4090", "rtx4090"),
        ("RTX 4090", "rtx4090"), ("rtx4090", "rtx4090"), ("NVIDIA GeForce RTX 4090", "rtx4090"), ("l40s", "l40s"),
        ("NVIDIA L40S", "l40s"), ("h100-sxm", "h100"), ("h100-pcie", "h100-pcie"), ("NVIDIA H100 PCIe", "h100-pcie"),
        ("a100-80gb", "a100-80gb"), ("b200", "b200"), ("NVIDIA B200", "b200"), ("mi300x", "mi300x"),
        ("AMD Instinct MI300X", "mi300x"), ("Ascend910B", "ascend-910b"), ("NVIDIA GeForce RTX 3090", "rtx3090"),
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


@pytest.mark.parametrize("name", sorted(set(DEVICES) - {"cpu"}))
def test_numbers_of_accelerators_are_plausible(name: str) -> None:
    """A figure with sparsity, in bits or in GiB is off by enough to be seen."""
    chip = DEVICES[name]
    half, single = chip.peak(Precision.FP16), chip.peak(Precision.FP32)
    assert 5e12 <= single <= 2e14
    assert single <= half <= 2.5e15
    assert chip.peak(Precision.TF32) in (single, pytest.approx(half / 2, rel=0.02))
    assert chip.peak(Precision.FP8) in (single, pytest.approx(2 * half, rel=0.03), pytest.approx(4 * half, rel=0.01))
    assert 1.9e11 <= chip.bandwidth <= 8e12
    assert 20 <= half / chip.bandwidth <= 450, "operations a byte"
    assert 2e6 <= chip.l2_bytes <= 2.6e8
    assert 20 <= chip.units <= 304
    assert 1e9 <= chip.clock_hz <= 2.6e9
    assert 8e9 <= chip.memory_bytes <= 2e11
    assert 70 <= chip.tdp_w <= 1000


def test_a_precision_without_units_runs_at_the_fp32_rate() -> None:
    volta = device_named("v100")

    assert volta.peak(Precision.TF32) == volta.peak(Precision.BF16) == volta.vector_peak
    assert volta.peak(Precision.FP16) > 5 * volta.vector_peak


def test_small_cards_cannot_feed_their_peak() -> None:
    assert device_named("l4").power_bound < device_named("l4").vector_peak
    assert device_named("v100").power_bound > device_named("v100").vector_peak


def test_impossible_devices_are_refused() -> None:
    with pytest.raises(InputError, match="bandwidth"):
        replace(device_named("t4"), bandwidth=0.0)
    with pytest.raises(InputError, match="fp32"):
        replace(device_named("t4"), peaks=())
