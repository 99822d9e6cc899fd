"""What the drivers tell becomes nodes, and each device its environment."""

import os
import sys
from pathlib import Path

import pytest

from penstock.backends import Inventory, LocalBackend, LocalDevice, discover, fake_devices
from penstock.backends.agent.environment import MeetingPoint, base_environment, worker_environment
from penstock.backends.agent.states import WorkerGroup
from penstock.backends.agent.usage import Held, UsageMeter
from penstock.backends.local.devices import CPU_KIND, cpu_slots, find_ascend, find_nvidia
from penstock.backends.runs.rundir import RunDir
from penstock.core import AgentAddress, ClusterError, DeviceSlot, InputError, UnknownNameError, Worker
from tests.backends.watching import NODE, make_launch
from tests.tools.fake_nvml import FakeGpu, fake_nvml

MEETING = MeetingPoint(
    agent=AgentAddress(path="/a"), secret_file=Path("/secret"), master="10.0.0.7", port=1234
)  # fmt: skip
NPU_SMI = """
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc1                 Version: 24.1.rc1                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 101.8       43                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          59356/ 65536         |
+===========================+===============+====================================================+
| 1     910B3               | Critical      | 92.0        39                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3314 / 65536         |
+===========================+===============+====================================================+
| 2     910B3               | Warning       | 102.0       40                0    / 0             |
| 0                         | 0000:81:00.0  | 0           0    / 0          3314 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 1712733       | python                   | 48954                   |
| No running processes found in NPU 1                                                            |
"""

TWO_CHIPS = """
| NPU     Name              | Health        | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device            | Bus-Id        | AICore(%)    Memory-Usage(MB)                        |
| 8       310P3             | OK            | NA           50                0     / 0             |
| 0       0                 | 0000:82:00.0  | 0            1571 / 21527                            |
| 8       310P3             | OK            | NA           51                0     / 0             |
| 1       1                 | 0000:82:00.0  | 0            1571 / 21527                            |
"""


def test_gpus_come_with_memory_power_and_their_uuid() -> None:
    gpus = [FakeGpu(uuid=f"GPU-{i}", name="NVIDIA A100-SXM4-80GB", limit_mw=400_000) for i in range(2)]
    devices = find_nvidia(lambda: fake_nvml(*gpus))
    (node,) = Inventory(devices, "box").nodes
    assert (node.name, node.kind, node.device_count, node.device_memory) == ("box", "A100", 2, 80 * 2**30)
    assert node.power.peak_w == 400.0
    assert dict(devices[1].env)["CUDA_VISIBLE_DEVICES"] == "GPU-1"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("NVIDIA H200", "H200"), ("Tesla V100-SXM2-32GB", "V100"), ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA RTX A6000", "RTX-A6000"), ("Tesla T4", "T4"), ("NVIDIA H100 80GB HBM3", "H100"),
    ],
)  # fmt: skip
def test_models_are_called_as_people_call_them(name: str, kind: str) -> None:
    (device,) = find_nvidia(lambda: fake_nvml(FakeGpu(name=name)))
    assert (device.kind, device.id) == (kind, "GPU-0")


def test_a_driver_without_power_figures_still_counts() -> None:
    assert find_nvidia(lambda: fake_nvml(FakeGpu(name="Tesla T4", limit_mw=None)))[0].power.peak_w == 0.0


def test_no_driver_means_no_gpus() -> None:
    assert find_nvidia(lambda: None) == ()


def test_usage_sums_the_devices_of_a_run() -> None:
    gpus = [
        FakeGpu(uuid=f"GPU-{i}", used_bytes=(i + 1) * 2**30, busy_percent=50 * i, power_mw=150_000) for i in range(3)
    ]
    meter = UsageMeter(os.getpid(), nvml=fake_nvml(*gpus))
    usage = meter.sample(Held(gpus=("GPU-1", "GPU-2")))
    assert (usage.device_percent, usage.device_memory_bytes, usage.power_w) == (75.0, 5 * 2**30, 300.0)
    assert [(device.id, device.percent) for device in usage.devices] == [("GPU-1", 50.0), ("GPU-2", 100.0)]
    without = UsageMeter(os.getpid(), nvml=fake_nvml(FakeGpu())).sample(Held(gpus=("GPU-0",)))
    assert (without.device_percent, without.power_w, without.energy_j) == (0.0, None, None)


def test_npus_that_are_ill_are_left_out_and_still_numbered() -> None:
    devices = find_ascend(lambda: NPU_SMI)
    assert [dict(device.env)["ASCEND_RT_VISIBLE_DEVICES"] for device in devices] == ["0", "2"]
    assert {(device.kind, device.memory) for device in devices} == {("Ascend910B3", 65536 * 2**20)}


def test_cards_with_two_chips_are_two_devices() -> None:
    devices = find_ascend(lambda: TWO_CHIPS)
    assert [(device.id, device.kind, device.memory) for device in devices] == [
        ("npu-0", "Ascend310P3", 21527 * 2**20), ("npu-1", "Ascend310P3", 21527 * 2**20),
    ]  # fmt: skip


def test_output_that_is_no_table_means_no_npus() -> None:
    assert find_ascend(lambda: "") == ()
    assert find_ascend(lambda: "dcmi module initialize failed. ret is -8005\n") == ()


def test_npu_smi_is_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "npu-smi"
    program.write_text(f"#!/bin/sh\n[ \"$1\" = info ] && cat <<'END'\n{NPU_SMI}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert "Ascend910B3" in [node.kind for node in discover().nodes]
    assert [node.kind for node in discover(slots=3).nodes] == [CPU_KIND]
    program.write_text("#!/bin/sh\nexit 1\n")
    assert "Ascend910B3" not in [node.kind for node in discover().nodes]


def test_cpu_slots_share_cores_and_memory() -> None:
    cores = len(os.sched_getaffinity(0))
    assert len(cpu_slots()) == cores
    slots = cpu_slots(1)
    assert dict(slots[0].env)["OMP_NUM_THREADS"] == str(cores)
    assert dict(cpu_slots(4 * cores)[0].env)["OMP_NUM_THREADS"] == "1"
    assert cpu_slots(2)[0].memory == pytest.approx(slots[0].memory / 2, abs=1)


def test_slots_must_be_positive() -> None:
    with pytest.raises(InputError, match="slots=0"):
        discover(slots=0)


def test_two_kinds_on_one_machine_are_two_nodes() -> None:
    mixed = [LocalDevice(kind=kind, id=f"d{i}") for i, kind in enumerate(["A100", "T4", "A100"])]
    inventory = Inventory(tuple(mixed), "box")
    assert [(node.name, node.device_count) for node in inventory.nodes] == [("box-a100", 2), ("box-t4", 1)]
    assert [device.id for device in inventory.devices] == ["d0", "d2", "d1"]


def test_unknown_devices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="0 to 1"):
        fake_devices(2).env_of(DeviceSlot("local", 2))
    with pytest.raises(UnknownNameError, match="elsewhere"):
        fake_devices(2).env_of(DeviceSlot("elsewhere", 0))
    backend = LocalBackend(tmp_path, fake_devices(1))
    with pytest.raises(ClusterError, match="device local/1"):
        backend.launch(make_launch((sys.executable,), 2))
    assert backend.runs() == ()


def test_a_worker_sees_the_devices_of_its_world_so_that_its_local_rank_picks_its_own(tmp_path: Path) -> None:
    launch = make_launch(("x",), env=(("CUDA_VISIBLE_DEVICES", "7"), ("MINE", "1")))
    gpus = [
        Worker(
            id=f"w{i}",
            rank=i,
            node=NODE,
            slot=i,
            device_env=(("CUDA_VISIBLE_DEVICES", f"GPU-{i}"), ("OMP_NUM_THREADS", "2")),
        )
        for i in range(2)
    ]
    inherited = {"PATH": "/bin", "PENSTOCK_TOKEN": "secret", "RANK": "9", "TORCHELASTIC_RUN_ID": "other"}
    base = base_environment(inherited, launch, RunDir(tmp_path).paths)
    env = worker_environment(base, WorkerGroup(3, tuple(gpus), 0.0), gpus[1], meeting=MEETING, restart_count=2)
    assert env["CUDA_VISIBLE_DEVICES"].split(",")[int(env["LOCAL_RANK"])] == "GPU-1"
    assert (env["OMP_NUM_THREADS"], env["MINE"], env["PATH"]) == ("2", "1", "/bin")
    assert (env["RANK"], env["MASTER_PORT"], env["TORCHELASTIC_RESTART_COUNT"]) == ("1", "1234", "2")
    assert (env["MASTER_ADDR"], env["PENSTOCK_AGENT"]) == ("10.0.0.7", "unix:/a")
    assert "PENSTOCK_TOKEN" not in env
    assert env["TORCHELASTIC_RUN_ID"] == "run-1"


def test_ranks_and_devices_count_through_the_workers_node() -> None:
    """Two nodes with two workers each: whatever is local is local to a node."""
    placed = [("b", 1), ("a", 0), ("b", 0), ("a", 3)]
    group = tuple(
        Worker(id=f"w{i}", rank=i, node=node, slot=slot, device_env=(("CUDA_VISIBLE_DEVICES", f"{node}{slot}"),))
        for i, (node, slot) in enumerate(placed)
    )
    seen = [
        worker_environment({}, WorkerGroup(0, group, 0.0), worker, meeting=MEETING, restart_count=0) for worker in group
    ]
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "NNODES", "CUDA_VISIBLE_DEVICES")
    assert [tuple(env[name] for name in names) for env in seen] == [
        ("0", "0", "2", "0", "2", "b1,b0"),
        ("1", "0", "2", "1", "2", "a0,a3"),
        ("2", "1", "2", "0", "2", "b1,b0"),
        ("3", "1", "2", "1", "2", "a0,a3"),
    ]
    assert {env["WORLD_SIZE"] for env in seen} == {"4"}
