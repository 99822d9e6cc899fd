"""What a run uses: processor time and memory of all its processes, and its devices' own figures where NVML tells."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.backends.base import BackendError
from penstock.backends.local.devices import load_nvml
from penstock.core import Usage


@dataclass(frozen=True, slots=True)
class _Sample:
    cpu_s: float
    at: float


class UsageMeter:
    """Samples everything below one process. The first figure is the average since the meter was made."""

    def __init__(self, root: int, nvml: Any | None = None) -> None:
        self._root = root
        self._nvml = nvml
        self._last = _Sample(0.0, time.monotonic())

    def sample(self, device_ids: Sequence[str] = ()) -> Usage:
        """Usage now; ``device_ids`` are the NVML UUIDs the run holds."""
        cpu_s, memory = self._processes()
        now = _Sample(cpu_s, time.monotonic())
        elapsed = max(now.at - self._last.at, 1e-3)
        # A process that ended takes its past with it: less in sum than before means unknown, not negative.
        percent = max(0.0, 100.0 * (now.cpu_s - self._last.cpu_s) / elapsed)
        self._last = now
        return Usage(cpu_percent=percent, memory_bytes=memory, **self._devices(device_ids))

    def _processes(self) -> tuple[float, int]:
        psutil = _psutil()
        cpu_s, memory = 0.0, 0
        for process in psutil.Process(self._root).children(recursive=True):
            with suppress(psutil.Error):
                times = process.cpu_times()
                cpu_s += times.user + times.system
                memory += process.memory_info().rss
        return cpu_s, memory

    def _devices(self, ids: Sequence[str]) -> dict[str, Any]:
        nvml = (self._nvml or load_nvml()) if ids else None
        if nvml is None:
            return {}
        self._nvml = nvml
        try:
            handles = [nvml.nvmlDeviceGetHandleByUUID(name) for name in ids]
            busy = [nvml.nvmlDeviceGetUtilizationRates(handle).gpu for handle in handles]
            return {
                "device_percent": sum(busy) / len(busy),
                "device_memory_bytes": sum(int(nvml.nvmlDeviceGetMemoryInfo(handle).used) for handle in handles),
                "power_w": sum(nvml.nvmlDeviceGetPowerUsage(handle) for handle in handles) / 1000.0,
            }
        except nvml.NVMLError:
            return {}


def _psutil() -> Any:
    try:
        import psutil
    except ImportError:
        raise BackendError("usage needs psutil; install it with: pip install 'penstock[live]'") from None
    return psutil
