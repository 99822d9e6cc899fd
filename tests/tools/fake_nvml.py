"""NVIDIA's library as ctypes sees it: functions that return a code and write their answers through pointers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.tools import Nvml

SUCCESS, NOT_SUPPORTED, NOT_FOUND = 0, 3, 6


@dataclass(slots=True, kw_only=True)
class FakeGpu:
    """What one GPU answers; a figure that is None is not supported by its driver."""

    uuid: str = "GPU-0"
    name: str = "NVIDIA H200"
    total_bytes: int = 80 * 2**30
    used_bytes: int | None = 2**30
    busy_percent: int | None = 0
    power_mw: int | None = None
    limit_mw: int | None = None
    energy_mj: int | None = None
    clock_mhz: int | None = None


class FakeNvmlLibrary:
    """Handles are positions in ``gpus``, counted from 1: a null handle is no device."""

    def __init__(self, gpus: Sequence[FakeGpu], *, missing: Sequence[str] = (), started: int = SUCCESS) -> None:
        self.gpus = list(gpus)
        self._missing = missing
        self._started = started

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in object.__getattribute__(self, "_missing"):
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    def nvmlInit_v2(self) -> int:
        return self._started

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return SUCCESS

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        return self._found(index.value if index.value < len(self.gpus) else None, handle)

    def nvmlDeviceGetHandleByUUID(self, uuid: Any, handle: Any) -> int:
        at = (position for position, gpu in enumerate(self.gpus) if gpu.uuid.encode() == uuid.value)
        return self._found(next(at, None), handle)

    def nvmlSystemGetDriverVersion(self, text: Any, length: Any) -> int:
        return _written(text, length, "570.86.15")

    def nvmlDeviceGetName(self, handle: Any, text: Any, length: Any) -> int:
        return _written(text, length, self._gpu(handle).name)

    def nvmlDeviceGetUUID(self, handle: Any, text: Any, length: Any) -> int:
        return _written(text, length, self._gpu(handle).uuid)

    def nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        gpu = self._gpu(handle)
        memory._obj.total = gpu.total_bytes
        return _set(gpu.used_bytes, lambda used: setattr(memory._obj, "used", used))

    def nvmlDeviceGetUtilizationRates(self, handle: Any, rates: Any) -> int:
        return _set(self._gpu(handle).busy_percent, lambda percent: setattr(rates._obj, "gpu", percent))

    def nvmlDeviceGetPowerUsage(self, handle: Any, milliwatts: Any) -> int:
        return _value(self._gpu(handle).power_mw, milliwatts)

    def nvmlDeviceGetPowerManagementLimit(self, handle: Any, milliwatts: Any) -> int:
        return _value(self._gpu(handle).limit_mw, milliwatts)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, millijoules: Any) -> int:
        return _value(self._gpu(handle).energy_mj, millijoules)

    def nvmlDeviceGetClockInfo(self, handle: Any, kind: Any, megahertz: Any) -> int:
        return _value(self._gpu(handle).clock_mhz if kind.value == 1 else None, megahertz)

    def _found(self, position: int | None, handle: Any) -> int:
        if position is None:
            return NOT_FOUND
        handle._obj.value = position + 1
        return SUCCESS

    def _gpu(self, handle: Any) -> FakeGpu:
        return self.gpus[handle.value - 1]


def fake_nvml(*gpus: FakeGpu, missing: Sequence[str] = ()) -> Nvml:
    """The binding over a library with these GPUs and without the functions that are ``missing``."""
    nvml = Nvml.load(FakeNvmlLibrary(gpus, missing=missing))
    assert nvml is not None
    return nvml


def _written(text: Any, length: Any, value: str) -> int:
    text.value = value.encode()[: length.value - 1]
    return SUCCESS


def _value(answer: int | None, reference: Any) -> int:
    return _set(answer, lambda value: setattr(reference._obj, "value", value))


def _set(answer: int | None, write: Callable[[int], None]) -> int:
    if answer is None:
        return NOT_SUPPORTED
    write(answer)
    return SUCCESS
