"""NVIDIA's management library (NVML), as the driver installs it: which GPUs there are, what they do and what they use.

Bound by ctypes and not by the ``nvidia-ml-py`` package: the library comes with every driver, the package only with
some environments, and a job's environment, a measuring machine and the server all need the same dozen questions. A
question that the library, the driver or the device does not answer is answered with None.
"""

import ctypes
from dataclasses import dataclass
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_SUCCESS = 0
_SM_CLOCK = 1
_TEXT_BYTES = 96


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """Bytes of a GPU's memory."""

    total: int
    used: int


class Nvml:
    """The initialised library; ``load`` finds it."""

    def __init__(self, library: Any) -> None:
        self._library = library

    @classmethod
    def load(cls, library: Any = None) -> "Nvml | None":
        """None where there is no driver, or none that answers. ``library`` is for tests: what ctypes would load."""
        try:
            found = library or ctypes.CDLL(_LIBRARY)
            return cls(found) if found.nvmlInit_v2() == _SUCCESS else None
        except (OSError, AttributeError):
            return None

    def devices(self) -> tuple["NvmlDevice", ...]:
        """Every GPU of the machine that can be reached, in the driver's order."""
        count = ctypes.c_uint()
        if not self.ask("nvmlDeviceGetCount_v2", ctypes.byref(count)):
            return ()
        found = (self.device_at(index) for index in range(count.value))
        return tuple(device for device in found if device is not None)

    def device_at(self, index: int) -> "NvmlDevice | None":
        return self._device("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index))

    def device_with_uuid(self, uuid: str) -> "NvmlDevice | None":
        return self._device("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(uuid.encode()))

    def driver_version(self) -> str | None:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        return text.value.decode() if self.ask("nvmlSystemGetDriverVersion", text, ctypes.c_uint(_TEXT_BYTES)) else None

    def ask(self, function: str, *arguments: Any) -> bool:
        """Whether the function exists and succeeded; its answer is in the arguments passed by reference."""
        asked = getattr(self._library, function, None)
        return asked is not None and bool(asked(*arguments) == _SUCCESS)

    def _device(self, function: str, key: Any) -> "NvmlDevice | None":
        handle = ctypes.c_void_p()
        return NvmlDevice(self, handle) if self.ask(function, key, ctypes.byref(handle)) else None


class NvmlDevice:
    """One GPU by its handle."""

    def __init__(self, nvml: Nvml, handle: ctypes.c_void_p) -> None:
        self._nvml = nvml
        self._handle = handle

    def name(self) -> str | None:
        return self._text("nvmlDeviceGetName")

    def uuid(self) -> str | None:
        return self._text("nvmlDeviceGetUUID")

    def memory(self) -> GpuMemory | None:
        memory = _Memory()
        answered = self._ask("nvmlDeviceGetMemoryInfo", ctypes.byref(memory))
        return GpuMemory(memory.total, memory.used) if answered else None

    def busy_percent(self) -> float | None:
        """Share of the last moments in which any kernel ran."""
        busy = _Utilization()
        return float(busy.gpu) if self._ask("nvmlDeviceGetUtilizationRates", ctypes.byref(busy)) else None

    def power_w(self) -> float | None:
        return self._thousandths("nvmlDeviceGetPowerUsage", ctypes.c_uint())

    def power_limit_w(self) -> float | None:
        return self._thousandths("nvmlDeviceGetPowerManagementLimit", ctypes.c_uint())

    def energy_j(self) -> float | None:
        """Joules since the driver was loaded."""
        return self._thousandths("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong())

    def clock_mhz(self) -> int | None:
        """Clock of the multiprocessors now."""
        clock = ctypes.c_uint()
        answered = self._ask("nvmlDeviceGetClockInfo", ctypes.c_int(_SM_CLOCK), ctypes.byref(clock))
        return clock.value if answered else None

    def _thousandths(self, function: str, answer: Any) -> float | None:
        return answer.value / 1000.0 if self._ask(function, ctypes.byref(answer)) else None

    def _text(self, function: str) -> str | None:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        return text.value.decode() if self._ask(function, text, ctypes.c_uint(_TEXT_BYTES)) else None

    def _ask(self, function: str, *arguments: Any) -> bool:
        return self._nvml.ask(function, self._handle, *arguments)
