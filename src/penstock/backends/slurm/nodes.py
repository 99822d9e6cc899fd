"""Nodes of a partition as ``scontrol`` describes them: devices, what a batch job for one of them asks for, and trouble.

A node with generic resources called ``gpu`` (or ``npu``) has that many devices, of the type that Slurm gives them; any
other has slots of processor cores.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.core import DeviceSlot, Node

CPU_KIND = "cpu"
_ACCELERATORS = ("gpu", "npu")
_GRES = re.compile(r"(\w+)(?::([\w.-]+))?:(\d+)(?:\(.*\))?$")
_FIELD = re.compile(r"(?:^|\s)(\w+)=")
_UNUSABLE = (
    "DOWN", "DRAIN", "FAIL", "MAINT", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "REBOOT", "FUTURE", "INVAL",
    "BLOCKED",
)  # fmt: skip
_SILENT = ("NO_RESPOND", "NOT_RESPONDING", "UNK")
_RESERVED = "RESERVED"
HELD = "held by batch jobs of others"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """One node. ``gres`` names its accelerators in Slurm's words; nodes without any have slots of ``cpus`` cores."""

    name: str
    kind: str
    count: int
    cpus: int
    memory_mb: int = 0
    gres: str = ""
    state: str = ""
    reason: str = ""
    allocated: int = 0
    rack: str = "rack-0"

    @property
    def node(self) -> Node:
        return Node(name=self.name, device_count=self.count, kind=self.kind, rack=self.rack)

    @property
    def request(self) -> list[str]:
        """What a batch job for one device asks ``sbatch`` for."""
        return [*self._share(self.cpus, self.memory_mb), *([f"--gres={self.gres}:1"] if self.gres else [])]

    @property
    def core_request(self) -> list[str]:
        """What one without a device asks for: a core, and of the memory that comes with a device a core's share."""
        return self._share(1, self.memory_mb // self.cpus)

    def _share(self, cpus: int, memory_mb: int) -> list[str]:
        memory = [f"--mem={memory_mb}M"] if memory_mb else []
        return [f"--nodelist={self.name}", "--nodes=1", "--ntasks=1", f"--cpus-per-task={cpus}", *memory]

    @property
    def is_silent(self) -> bool:
        """Whether Slurm has not heard of it, which may be its own controller's fault."""
        return "*" in self.state or self._has(_SILENT)

    def trouble(self, in_reservation: bool) -> str:
        """Why nothing can be started here, in Slurm's words; nothing if it can."""
        found = self._has(_UNUSABLE if in_reservation else (*_UNUSABLE, _RESERVED))
        return ": ".join(part for part in (self.state, self.reason) if part) if found else ""

    def _has(self, marks: Sequence[str]) -> bool:
        flags = self.state.upper().replace("*", "").split("+")
        return any(flag.startswith(mark) for flag in flags for mark in marks)


def parse_nodes(text: str, partition: str, cpus_per_slot: int) -> tuple[SlurmNode, ...]:
    """The nodes of a partition from ``scontrol show nodes --oneliner --details``, in the order of their names."""
    found = (_node(dict(_fields(line)), cpus_per_slot) for line in text.splitlines() if line.startswith("NodeName="))
    listed = {node.name: node for node, partitions in found if partition in partitions and node.count > 0}
    return tuple(listed[name] for name in sorted(listed))


def held_by_others(nodes: Sequence[SlurmNode], ours: Mapping[str, set[int]]) -> dict[DeviceSlot, str]:
    """Slots that other people's batch jobs occupy: as many as a node has allocated beyond ours, the last free ones."""
    held: dict[DeviceSlot, str] = {}
    for node in nodes:
        own = ours.get(node.name, set())
        free = [slot for slot in range(node.count) if slot not in own]
        foreign = min(max(node.allocated - len(own), 0), len(free))
        held |= {DeviceSlot(node.name, slot): HELD for slot in free[len(free) - foreign :]}
    return held


def _fields(line: str) -> Iterator[tuple[str, str]]:
    """Values may hold spaces, so each reaches up to the next name."""
    marks = list(_FIELD.finditer(line))
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        yield mark[1], line[mark.end() : following.start() if following else None].strip()


def _node(fields: Mapping[str, str], cpus_per_slot: int) -> tuple[SlurmNode, list[str]]:
    cores, memory_mb = int(fields.get("CPUTot", "0")), int(fields.get("RealMemory", "0"))
    kind, count, gres = _accelerators(fields.get("Gres", ""))
    cpus = max(cores // count, 1) if count else cpus_per_slot
    allocated = _allocated_accelerators(fields) if count else 0
    if not count:
        kind, count = CPU_KIND, cores // cpus_per_slot
        allocated = -(-int(fields.get("CPUAlloc", "0")) // cpus_per_slot)
    node = SlurmNode(
        name=fields["NodeName"], kind=kind, count=count, cpus=cpus, gres=gres, state=fields.get("State", ""),
        memory_mb=memory_mb // count if count and memory_mb > 1 else 0, allocated=allocated,
        reason=_known(fields.get("Reason", "")),
    )  # fmt: skip
    return node, _known(fields.get("Partitions", "")).split(",")


def _accelerators(gres: str) -> tuple[str, int, str]:
    """Kind, number, and what to ask for one: of several types on a node, the first."""
    for words in re.split(r",(?![^(]{0,200}\))", _known(gres)):
        match = _GRES.match(words)
        if match and match[1] in _ACCELERATORS:
            return match[2] or match[1], int(match[3]), f"{match[1]}:{match[2]}" if match[2] else match[1]
    return "", 0, ""


def _allocated_accelerators(fields: Mapping[str, str]) -> int:
    """Where Slurm keeps no accounts of them, ``AllocTRES`` leaves them out; ``GresUsed`` comes with details only."""
    tres = re.finditer(r"gres/(\w+)=(\d+)", fields.get("AllocTRES", ""))
    counted = sum(int(match[2]) for match in tres if match[1] in _ACCELERATORS)
    return max(counted, _accelerators(fields.get("GresUsed", ""))[1])


def _known(text: str) -> str:
    return "" if text in ("(null)", "N/A") else text
