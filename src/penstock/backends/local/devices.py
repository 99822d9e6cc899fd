"""What this machine has: NVIDIA GPUs by NVML, Ascend NPUs by ``npu-smi info``, or else its processor cores as slots.

Each device comes with the environment that confines a process to it. Nothing here is needed to parse a job or to
simulate; the drivers' libraries are looked for only when asked, and their absence is an answer and not an error.
"""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from penstock.backends.agent.usage import slot_power
from penstock.core import ClusterError, DeviceSlot, InputError, Node, PowerModel, UnknownNameError
from penstock.tools import Nvml, NvmlDevice

CPU_KIND = "cpu"
_USABLE_HEALTH = frozenset({"OK", "Warning"})
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_VENDOR_WORDS = re.compile(r"^(NVIDIA|Tesla|GeForce|Quadro)\s+", re.IGNORECASE)
_USED_OF_TOTAL = re.compile(r"(\d+)\s*/\s*(\d+)")

NO_POWER_KNOWN = PowerModel()

Environment = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDevice:
    """One device as its driver tells it."""

    kind: str
    id: str
    memory: int = 0
    power: PowerModel = NO_POWER_KNOWN
    env: Environment = ()


@dataclass(frozen=True, slots=True)
class Inventory:
    """The devices of this machine, and the nodes they make up: one for each kind."""

    devices: tuple[LocalDevice, ...]
    host: str = ""

    def __post_init__(self) -> None:
        if not self.devices:
            raise ClusterError("a machine without devices", "at least one", "Give slots to run on processor cores")
        kinds = [device.kind for device in self.devices]
        object.__setattr__(self, "devices", tuple(sorted(self.devices, key=lambda device: kinds.index(device.kind))))

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._nodes())

    def env_of(self, place: DeviceSlot) -> Environment:
        """What confines a process to a device."""
        devices = self._by_node().get(place.node)
        if devices is None:
            raise UnknownNameError.of("node", place.node, self._by_node(), "Ask the backend for its nodes")
        if not 0 <= place.slot < len(devices):
            raise ClusterError(f"device {place}", f"slots 0 to {len(devices) - 1}", "Ask the backend for its nodes")
        return devices[place.slot].env

    def _by_node(self) -> dict[str, list[LocalDevice]]:
        """The devices of each node, by its name: slots count through the devices of one kind."""
        host = self.host or socket.gethostname()
        kinds = list(dict.fromkeys(device.kind for device in self.devices))
        names = {kind: host if len(kinds) == 1 else f"{host}-{kind.lower()}" for kind in kinds}
        return {names[kind]: [device for device in self.devices if device.kind == kind] for kind in kinds}

    def _nodes(self) -> Iterator[Node]:
        for name, devices in self._by_node().items():
            yield Node(
                name=name, device_count=len(devices), kind=devices[0].kind, rack=self.host or socket.gethostname(),
                device_memory=min(device.memory for device in devices),
                power=max((device.power for device in devices), key=lambda power: power.peak_w),
            )  # fmt: skip


def discover(slots: int | None = None) -> Inventory:
    """The accelerators of this machine; ``slots`` asks for processor cores instead, as does having no accelerator."""
    found = () if slots is not None else (*find_nvidia(), *find_ascend())
    return Inventory(tuple(found) or cpu_slots(slots))


def fake_devices(count: int, kind: str = "fake", memory: int = 0, host: str = "local") -> Inventory:
    """Devices that only exist by name, for tests and demonstrations."""
    return Inventory(
        tuple(
            LocalDevice(kind=kind, id=f"{kind}-{i}", memory=memory, env=(("PENSTOCK_FAKE_DEVICE", str(i)),))
            for i in range(count)
        ),
        host,
    )


def cpu_slots(slots: int | None = None) -> tuple[LocalDevice, ...]:
    """Processor cores in equal shares; a slot is told how many threads it may use."""
    cores = len(os.sched_getaffinity(0))
    count = cores if slots is None else slots
    if count < 1:
        raise InputError(f"slots={count}", "at least 1", f"This machine has {cores} cores")
    threads = str(max(1, cores // count))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // count
    env = tuple((name, threads) for name in _THREAD_VARIABLES)
    power = slot_power(int(threads))
    return tuple(LocalDevice(kind=CPU_KIND, id=f"cpu-{i}", memory=memory, power=power, env=env) for i in range(count))


def find_nvidia(load: Callable[[], Nvml | None] = Nvml.load) -> tuple[LocalDevice, ...]:
    """GPUs that the driver's library knows; ``load`` returns it initialised, or nothing where there is no driver."""
    nvml = load()
    named = ((device, device.uuid()) for device in nvml.devices()) if nvml else ()
    return tuple(_nvidia_device(device, uuid) for device, uuid in named if uuid)


def find_ascend(run: Callable[[], str] | None = None) -> tuple[LocalDevice, ...]:
    """NPUs that ``npu-smi info`` lists as usable; ``run`` returns what it prints."""
    return tuple(_parse_npu_smi((run or _run_npu_smi)().splitlines()))


def _nvidia_device(device: NvmlDevice, uuid: str) -> LocalDevice:
    memory = device.memory()
    return LocalDevice(
        kind=_model(device.name() or "GPU"), id=uuid,
        memory=memory.total if memory else 0,
        power=PowerModel(peak_w=device.power_limit_w() or 0.0),
        env=(("CUDA_VISIBLE_DEVICES", uuid), ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")),
    )  # fmt: skip


def _model(name: str) -> str:
    """The model people call it by: "NVIDIA A100-SXM4-80GB" is an A100, "NVIDIA GeForce RTX 4090" an RTX-4090."""
    short = name
    while (shorter := _VENDOR_WORDS.sub("", short)) != short:
        short = shorter
    words = short.split("-")[0].split()
    return "-".join(words[:2]) if words[0].upper() in ("RTX", "GTX") else words[0]


def _run_npu_smi() -> str:
    program = shutil.which("npu-smi")
    if program is None:
        return ""
    try:
        return subprocess.run([program, "info"], capture_output=True, text=True, timeout=30, check=True).stdout
    except (subprocess.SubprocessError, OSError):
        return ""


def _parse_npu_smi(lines: Iterable[str]) -> Iterator[LocalDevice]:
    """Two lines for each chip: name and health, then its memory. The logical id counts chips, healthy or not.

    A card with several chips names itself in the first line of each; the table of processes below is no chip.
    """
    logical, card = 0, ("", "")
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 3 or cells[1].startswith("Process"):
            card = ("", "") if "Process" in line else card
            continue
        words = cells[0].split()
        if len(words) == 2 and words[0].isdigit() and not words[1].isdigit():
            card = (words[1], cells[1])
        elif card[0] and words and words[0].isdigit():
            yield from _npu(card, logical, cells[2])
            logical, card = logical + 1, ("", "")


def _npu(card: tuple[str, str], logical: int, usage: str) -> Iterator[LocalDevice]:
    name, health = card
    if health not in _USABLE_HEALTH:
        return
    megabytes = max((int(total) for _, total in _USED_OF_TOTAL.findall(usage)), default=0)
    yield LocalDevice(
        kind=name if name.startswith("Ascend") else f"Ascend{name}", id=f"npu-{logical}", memory=megabytes * 2**20,
        env=(("ASCEND_RT_VISIBLE_DEVICES", str(logical)),),
    )  # fmt: skip
