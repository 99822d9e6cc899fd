"""What a run uses is complete, also when its processes come and go, and totals outlive the run."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from penstock.backends import LocalBackend, discover
from penstock.backends.local import usage as usage_module
from penstock.backends.local.processes import account_of
from penstock.backends.local.usage import CORE_POWER, Held, UsageMeter, totals
from tests.backends.conformance import python
from tests.backends.watching import make_launch, status, until, wait_for_end, wait_for_output

BURN = """
import subprocess, sys, time
burn = 'import time\\nwhile time.process_time() < 0.3: pass'
for _ in range(2): subprocess.run([sys.executable, '-c', burn])
print('burnt', flush=True)
"""


class FakeClock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(usage_module, "time", SimpleNamespace(monotonic=lambda: self.now))


class Gpus:
    """NVML with energy counters, as far as they are given."""

    class NVMLError(Exception):
        pass

    def __init__(self, watts: dict[str, float], counters_mj: dict[str, float] | None = None) -> None:
        self.watts = watts
        self.counters_mj = counters_mj

    def nvmlDeviceGetHandleByUUID(self, name: str) -> str:
        if name not in self.watts:
            raise self.NVMLError("fell off the bus")
        return name

    def nvmlDeviceGetPowerUsage(self, name: str) -> float:
        return self.watts[name] * 1000.0

    def nvmlDeviceGetUtilizationRates(self, _name: str) -> Any:
        return SimpleNamespace(gpu=90)

    def nvmlDeviceGetMemoryInfo(self, _name: str) -> Any:
        return SimpleNamespace(used=2**30)

    def nvmlDeviceGetTotalEnergyConsumption(self, name: str) -> float:
        if self.counters_mj is None:
            raise self.NVMLError("not supported")
        return self.counters_mj[name]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    return FakeClock(monkeypatch)


@pytest.fixture
def slots(state_dir: Path) -> LocalBackend:
    return LocalBackend(state_dir, discover(slots=2))


def test_processor_time_of_ended_processes_stays(slots: LocalBackend) -> None:
    slots.launch(make_launch(python(BURN + "time.sleep(600)")))
    wait_for_output(slots, "run-1", "burnt")
    assert slots.usage("run-1").cpu_s >= 0.6


def test_totals_outlive_the_run_and_add_up_over_attempts(slots: LocalBackend) -> None:
    seen = 0.0
    for attempt in range(2):
        slots.launch(make_launch(python(BURN), attempt=attempt))
        wait_for_end(slots, "run-1")
        used = slots.usage("run-1")
        assert used.cpu_s >= seen + 0.6
        assert (used.cpu_percent, used.memory_bytes, used.power_w) == (0.0, 0, None)
        assert used.estimated
        assert used.energy_j is not None
        assert used.energy_j >= used.cpu_s * (CORE_POWER.peak_w - CORE_POWER.idle_w) * 0.9
        seen = used.cpu_s


def test_a_run_on_processor_slots_has_an_estimated_power(slots: LocalBackend) -> None:
    slots.launch(make_launch(python("print('here', flush=True)\nwhile True: pass"), 1))
    wait_for_output(slots, "run-1", "here")

    def busy() -> bool:
        used = slots.usage("run-1")
        return used.power_w is not None and used.power_w > 1.2 * CORE_POWER.idle_w

    until(busy, "a busy core to show")
    used = slots.usage("run-1")
    assert used.estimated
    assert used.power_w is not None
    threads = max(1, len(psutil.Process().cpu_affinity()) // 2)
    assert CORE_POWER.idle_w * threads <= used.power_w <= CORE_POWER.peak_w * threads
    assert status(slots, "run-1").alive


def test_looking_at_processes_that_vanish_never_fails_and_never_goes_back() -> None:
    churn = "import subprocess\nfor _ in range(150): subprocess.run(['true'])"
    with subprocess.Popen([sys.executable, "-c", churn]) as process:
        meter = UsageMeter(process.pid)
        seen = [0.0]
        while process.poll() is None:
            seen.append(meter.sample(Held()).cpu_s)
        assert account_of(process.pid) == (0.0, 0)
    assert len(seen) > 2
    assert seen == sorted(seen)


def test_energy_comes_from_the_devices_counter(clock: FakeClock) -> None:
    gpus = Gpus({"GPU-0": 300.0, "GPU-1": 500.0}, {"GPU-0": 1e6, "GPU-1": 5e6})
    meter = UsageMeter(1, nvml=gpus)
    assert meter.sample(Held(gpus=("GPU-0", "GPU-1"))).energy_j is None
    gpus.counters_mj = {"GPU-0": 1e6 + 40_000, "GPU-1": 5e6 + 2_000}
    clock.now += 5.0
    used = meter.sample(Held(gpus=("GPU-0", "GPU-1")))
    assert (used.energy_j, used.power_w, used.device_percent, used.estimated) == (42.0, 800.0, 90.0, False)
    gpus.counters_mj = {"GPU-0": 2e6, "GPU-1": 5e6 + 3_000}
    assert meter.sample(Held(gpus=("GPU-1",))).energy_j == 43.0, "a device that was let go counts no more"
    gpus.counters_mj["GPU-0"] = 9e6
    assert meter.sample(Held(gpus=("GPU-0", "GPU-1"))).energy_j == 43.0, "one that comes back counts from now on"


def test_energy_without_a_counter_is_power_over_time(clock: FakeClock) -> None:
    gpus = Gpus({"GPU-0": 100.0})
    meter = UsageMeter(1, nvml=gpus)
    meter.sample(Held(gpus=("GPU-0",)))
    gpus.watts["GPU-0"] = 300.0
    clock.now += 10.0
    assert meter.sample(Held(gpus=("GPU-0",))).energy_j == 2000.0
    del gpus.watts["GPU-0"]
    clock.now += 10.0
    lost = meter.sample(Held(gpus=("GPU-0",)))
    assert (lost.energy_j, lost.power_w, lost.device_percent) == (2000.0, None, None)


def test_a_damaged_record_of_totals_counts_as_none(tmp_path: Path) -> None:
    record = tmp_path / "usage.json"
    for text in ("", "{", "[1]", '["x", 1, false]'):
        record.write_text(text)
        assert totals(record).cpu_s == 0.0
    meter = UsageMeter(1, record)
    meter.save()
    assert totals(record).cpu_s == 0.0
