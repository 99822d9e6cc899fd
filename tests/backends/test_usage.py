"""What a run uses is complete, also when its processes come and go, and totals outlive the run."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from penstock.backends import LocalBackend, discover
from penstock.backends.agent import usage as usage_module
from penstock.backends.agent.processes import account_of
from penstock.backends.agent.usage import CORE_POWER, Held, UsageMeter, totals
from tests.backends.watching import NODE, make_launch, python, status, until, wait_for_end, wait_for_output
from tests.tools.fake_nvml import FakeGpu, fake_nvml

BURN = """
import subprocess, sys, time
burn = 'import time\\nwhile time.process_time() < 0.32: pass'  # the kernel counts in hundredths
for _ in range(2): subprocess.run([sys.executable, '-c', burn])
print('burnt', flush=True)
"""


class FakeClock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(usage_module, "time", SimpleNamespace(monotonic=lambda: self.now))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    return FakeClock(monkeypatch)


@pytest.fixture
def slots(state_dir: Path) -> LocalBackend:
    return LocalBackend(state_dir, replace(discover(slots=2), host=NODE))


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
    first = FakeGpu(uuid="GPU-0", busy_percent=90, power_mw=300_000, energy_mj=1_000_000)
    second = FakeGpu(uuid="GPU-1", busy_percent=90, power_mw=500_000, energy_mj=5_000_000)
    meter = UsageMeter(1, nvml=fake_nvml(first, second))
    assert meter.sample(Held(gpus=("GPU-0", "GPU-1"))).energy_j is None
    first.energy_mj, second.energy_mj = 1_040_000, 5_002_000
    clock.now += 5.0
    used = meter.sample(Held(gpus=("GPU-0", "GPU-1")))
    assert (used.energy_j, used.power_w, used.device_percent, used.estimated) == (42.0, 800.0, 90.0, False)
    first.energy_mj, second.energy_mj = 2_000_000, 5_003_000
    assert meter.sample(Held(gpus=("GPU-1",))).energy_j == 43.0, "a device that was let go counts no more"
    first.energy_mj = 9_000_000
    assert meter.sample(Held(gpus=("GPU-0", "GPU-1"))).energy_j == 43.0, "one that comes back counts from now on"


def test_energy_without_a_counter_is_power_over_time(clock: FakeClock) -> None:
    gpu = FakeGpu(uuid="GPU-0", power_mw=100_000)
    meter = UsageMeter(1, nvml=fake_nvml(gpu))
    meter.sample(Held(gpus=("GPU-0",)))
    gpu.power_mw = 300_000
    clock.now += 10.0
    assert meter.sample(Held(gpus=("GPU-0",))).energy_j == 2000.0
    gpu.uuid = "GPU-that-fell-off-the-bus"
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
