"""What measurements hold for: the device, its driver and clock, and the versions of what ran on it."""

import os
import platform
from typing import Any

import torch

from penstock.tools import Nvml, NvmlDevice


def measured_gpu(device: str) -> NvmlDevice | None:
    """The GPU that measurements run on, to be asked for its energy and clock; None on a CPU or without a driver."""
    nvml = Nvml.load() if device == "cuda" else None
    return nvml.device_at(0) if nvml else None


def environment(device: str, gpu: NvmlDevice | None) -> dict[str, Any]:
    """Names and versions that a profile is kept with."""
    about: dict[str, Any] = {
        "device": device, "torch": torch.__version__, "python": platform.python_version(), "cores": os.cpu_count(),
        "threads": torch.get_num_threads(), "cpu": _cpu_name(),
    }  # fmt: skip
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        about |= {
            "name": properties.name, "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory, "cache_bytes": properties.L2_cache_size,
            "cuda": torch.version.cuda, "cudnn": _cudnn(), "driver": _driver_version(),
            "clock_mhz": gpu.clock_mhz() if gpu else None,
        }  # fmt: skip
    else:
        about["name"] = about["cpu"]
    return about


def _driver_version() -> str | None:
    nvml = Nvml.load()
    return nvml.driver_version() if nvml else None


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
