"""What a run uses: processor time, memory and energy of all its processes and devices, now and since it began.

Processor time is the kernel's own account: what lives, plus what has ended and been waited for, so nothing is lost with
a process. Devices that NVML knows are read from their meters. Processor cores have none that could be read for one run,
so their power is a documented guess, :data:`CORE_POWER` times utilisation, and flagged as such. A sample costs a few
small reads for each process of the run, whatever else runs on the machine.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.agent.processes import account_of
from penstock.core import DeviceUsage, PowerModel, Usage
from penstock.tools import Nvml, write_atomically

CORE_POWER = PowerModel(idle_w=0.74, peak_w=3.5)
"""Watts of one hardware thread: the averages for cloud servers that Cloud Carbon Footprint publishes."""

WINDOW_S = 1.0
"""Utilisation is averaged over at least this long."""


def slot_power(threads: int) -> PowerModel:
    """Watts of a processor slot with so many hardware threads."""
    return PowerModel(idle_w=threads * CORE_POWER.idle_w, peak_w=threads * CORE_POWER.peak_w)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a run occupies: GPUs by their NVML names, and threads of processor slots."""

    gpus: tuple[str, ...] = ()
    threads: int = 0


def held_by(environments: Iterable[Mapping[str, str]]) -> Held:
    """What workers occupy. One without a GPU occupies processor cores: as many as its slot has threads."""
    every = list(environments)
    gpus = [env["CUDA_VISIBLE_DEVICES"] for env in every if env.get("CUDA_VISIBLE_DEVICES")]
    threads = [int(env["OMP_NUM_THREADS"]) for env in every if env.get("OMP_NUM_THREADS", "").isdecimal()]
    return Held(gpus=tuple(dict.fromkeys(gpus)), threads=0 if gpus else sum(threads))


@dataclass(frozen=True, slots=True)
class _Reading:
    cpu_s: float
    at: float


class UsageMeter:
    """Everything below one process. Totals go on from those in ``record``, which an earlier agent of the run left."""

    def __init__(self, root: int, record: Path | None = None, nvml: Nvml | None = None) -> None:
        self._root = root
        self._record = record
        self._nvml = nvml
        self._before = totals(record)
        self._cpu_s = 0.0
        self._energy_j = self._before.energy_j
        self._estimated = self._before.estimated
        self._meters: dict[str, _DeviceMeter] = {}
        self._refs = (_Reading(0.0, time.monotonic()),) * 2
        self._last = self._refs[0]

    def sample(self, held: Held) -> Usage:
        """Usage now, and all energy up to now counted."""
        cpu_s, memory = account_of(self._root)
        self._cpu_s = max(self._cpu_s, cpu_s)  # a process that ends while it is looked at is counted next time
        now = _Reading(self._cpu_s, time.monotonic())
        percent = self._percent(now)
        devices = self._devices(held.gpus, now.at)
        watts = [device.power_w for device in devices if device.power_w is not None]
        if held.threads:
            watts.append(self._core_watts(held.threads, percent))
            self._spend(self._core_watts(held.threads, self._percent_since(self._last, now)) * (now.at - self._last.at))
            self._estimated = True
        self._last = now
        return self._usage(percent, memory, devices, sum(watts) if watts else None)

    def save(self) -> None:
        """Leave the totals for whoever asks after the run's end; a full disk loses them, not the run."""
        if self._record is not None:
            with suppress(OSError):
                figures = [self._before.cpu_s + self._cpu_s, self._energy_j, self._estimated]
                write_atomically(self._record, json.dumps(figures))

    def _usage(self, percent: float, memory: int, devices: tuple[DeviceUsage, ...], watts: float | None) -> Usage:
        busy = [device.percent for device in devices if device.percent is not None]
        used = [device.memory_bytes for device in devices if device.memory_bytes is not None]
        return Usage(
            cpu_percent=percent, memory_bytes=memory, cpu_s=self._before.cpu_s + self._cpu_s,
            device_percent=sum(busy) / len(busy) if busy else None, device_memory_bytes=sum(used) if used else None,
            power_w=watts, energy_j=self._energy_j, estimated=self._estimated, devices=devices,
        )  # fmt: skip

    def _percent(self, now: _Reading) -> float:
        older, newer = self._refs
        percent = self._percent_since(older, now)
        if now.at - newer.at >= WINDOW_S:
            self._refs = (newer, now)
        return percent

    def _percent_since(self, then: _Reading, now: _Reading) -> float:
        return 100.0 * (now.cpu_s - then.cpu_s) / max(now.at - then.at, 1e-3)

    def _core_watts(self, threads: int, percent: float) -> float:
        return slot_power(threads).watts(percent / 100.0 / threads)

    def _spend(self, energy_j: float) -> None:
        self._energy_j = (self._energy_j or 0.0) + energy_j

    def _devices(self, names: Sequence[str], now: float) -> tuple[DeviceUsage, ...]:
        """What each GPU does; one that was let go is not counted any more, one that came back counts from then on."""
        self._nvml = (self._nvml or Nvml.load()) if names else self._nvml
        if self._nvml is None:
            return ()
        self._meters = {name: self._meters.get(name) or _DeviceMeter(self._nvml, name) for name in names}
        found = []
        for meter in self._meters.values():
            device, spent_j = meter.read(now)
            found.append(device)
            if spent_j is not None:
                self._spend(spent_j)
        return tuple(found)


class _DeviceMeter:
    """One GPU for as long as the run holds it. Figures that its driver does not give are left out one by one."""

    def __init__(self, nvml: Nvml, name: str) -> None:
        self._nvml = nvml
        self._name = name
        self._counter_j: float | None = None
        self._last: tuple[float, float] | None = None

    def read(self, now: float) -> tuple[DeviceUsage, float | None]:
        """What it does now, and the joules since the last look; none the first time."""
        device = self._nvml.device_with_uuid(self._name)
        if device is None:
            return DeviceUsage(id=self._name), self._spent(None, None, now)
        memory, watts = device.memory(), device.power_w()
        usage = DeviceUsage(
            id=self._name, percent=device.busy_percent(), memory_bytes=memory.used if memory else None, power_w=watts
        )
        return usage, self._spent(device.energy_j(), watts, now)

    def _spent(self, counter_j: float | None, watts: float | None, now: float) -> float | None:
        """By the device's own counter where it has one, else the power between two looks."""
        counter_before, self._counter_j = self._counter_j, counter_j
        last, self._last = self._last, None if watts is None else (now, watts)
        if counter_j is not None and counter_before is not None:
            return max(counter_j - counter_before, 0.0)
        if last is not None and watts is not None:
            return (now - last[0]) * (watts + last[1]) / 2.0
        return None


def totals(record: Path | None) -> Usage:
    """What a run has used in its whole life, as its last agent left it; nothing runs any more."""
    try:
        cpu_s, energy_j, estimated = json.loads(record.read_text()) if record else (0.0, None, False)
        return Usage(cpu_s=float(cpu_s), energy_j=energy_j, estimated=bool(estimated))
    except (OSError, ValueError, TypeError):
        return Usage()
