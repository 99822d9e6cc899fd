"""The driver's library is asked by its C functions, and what it does not answer is None."""

import ctypes

import pytest

from penstock.tools import GpuMemory, Nvml
from tests.tools.fake_nvml import NOT_SUPPORTED, FakeGpu, FakeNvmlLibrary, fake_nvml

BUSY = FakeGpu(
    uuid="GPU-b", name="NVIDIA A100-SXM4-80GB", used_bytes=3 * 2**30, busy_percent=97, power_mw=312_500,
    limit_mw=400_000, energy_mj=5_000_000_000_123, clock_mhz=1410,
)  # fmt: skip


def test_every_figure_has_its_unit() -> None:
    nvml = fake_nvml(FakeGpu(uuid="GPU-a"), BUSY)
    device = nvml.device_with_uuid("GPU-b")
    assert device is not None
    assert (device.name(), device.uuid()) == ("NVIDIA A100-SXM4-80GB", "GPU-b")
    assert device.memory() == GpuMemory(total=80 * 2**30, used=3 * 2**30)
    assert (device.busy_percent(), device.clock_mhz()) == (97.0, 1410)
    assert (device.power_w(), device.power_limit_w()) == (312.5, 400.0)
    assert device.energy_j() == 5_000_000_000.123, "a counter of 64 bits"
    assert nvml.driver_version() == "570.86.15"


def test_devices_come_in_the_drivers_order() -> None:
    nvml = fake_nvml(FakeGpu(uuid="GPU-a"), BUSY)
    assert [device.uuid() for device in nvml.devices()] == ["GPU-a", "GPU-b"]
    second = nvml.device_at(1)
    assert second is not None
    assert second.uuid() == "GPU-b"


def test_a_device_that_is_not_there_is_none() -> None:
    nvml = fake_nvml(BUSY)
    assert nvml.device_at(1) is None
    assert nvml.device_with_uuid("GPU-lost") is None


def test_figures_the_driver_refuses_are_none() -> None:
    (device,) = fake_nvml(FakeGpu(busy_percent=None, used_bytes=None)).devices()
    assert (device.power_w(), device.power_limit_w(), device.energy_j(), device.clock_mhz()) == (None,) * 4
    assert (device.busy_percent(), device.memory()) == (None, None)
    assert device.name() == "NVIDIA H200"


def test_functions_an_old_driver_does_not_have_are_none() -> None:
    nvml = fake_nvml(BUSY, missing=["nvmlDeviceGetTotalEnergyConsumption", "nvmlSystemGetDriverVersion"])
    (device,) = nvml.devices()
    assert device.energy_j() is None
    assert nvml.driver_version() is None
    assert device.power_w() == 312.5


def test_a_library_that_does_not_start_is_none() -> None:
    assert Nvml.load(FakeNvmlLibrary([BUSY], started=NOT_SUPPORTED)) is None
    assert Nvml.load(FakeNvmlLibrary([BUSY], missing=["nvmlInit_v2"])) is None
    assert fake_nvml(BUSY, missing=["nvmlDeviceGetCount_v2"]).devices() == ()


def test_a_machine_without_a_driver_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert Nvml.load() is None
