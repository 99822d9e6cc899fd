"""What a device says about itself: name, clocks, energy. NVIDIA's library is used as it lies on the machine."""

import ctypes
import os
import platform
from typing import Any

import torch

_SM_CLOCK = 1


class Nvml:
    """The few questions we ask of NVML; every answer is None where the library is missing or refuses."""

    def __init__(self, index: int = 0) -> None:
        self._library: Any = None
        self._handle = ctypes.c_void_p()
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        if library.nvmlInit_v2() == 0 and library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self._handle)) == 0:
            self._library = library

    def energy_j(self) -> float | None:
        """Joules since the driver was loaded."""
        millijoules = ctypes.c_ulonglong()
        return millijoules.value / 1e3 if self._ask("nvmlDeviceGetTotalEnergyConsumption", millijoules) else None

    def clock_mhz(self) -> int | None:
        clock = ctypes.c_uint()
        return clock.value if self._ask("nvmlDeviceGetClockInfo", clock, _SM_CLOCK) else None

    def driver(self) -> str | None:
        if self._library is None:
            return None
        text = ctypes.create_string_buffer(80)
        return text.value.decode() if self._library.nvmlSystemGetDriverVersion(text, 80) == 0 else None

    def _ask(self, question: str, answer: Any, *between: Any) -> bool:
        if self._library is None:
            return False
        return bool(getattr(self._library, question)(self._handle, *between, ctypes.byref(answer)) == 0)


def environment(device: str, nvml: Nvml) -> dict[str, Any]:
    """What the measurements hold for."""
    about: dict[str, Any] = {
        "device": device, "torch": torch.__version__, "python": platform.python_version(), "cores": os.cpu_count(),
        "threads": torch.get_num_threads(), "cpu": _cpu_name(),
    }  # fmt: skip
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        about |= {
            "name": properties.name, "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory, "cache_bytes": properties.L2_cache_size,
            "cuda": torch.version.cuda, "cudnn": _cudnn(), "driver": nvml.driver(),
            "clock_mhz": nvml.clock_mhz(),
        }  # fmt: skip
    else:
        about["name"] = about["cpu"]
    return about


def _cudnn() -> int | None:
    version: int | None = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    return version


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
