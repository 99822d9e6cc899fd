"""The devices a plan is made for, by short name or from a file, with the links between them.

Names carry no links. Those assumed for a kind of device are typical of machines sold with it and are listed in
:data:`TYPICAL`; a file says what is really there.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.core import ClusterError, UnitError, UnknownNameError, format_bytes, parse_bytes
from penstock.parallel.analytic import Network, device_model
from penstock.parallel.devices.mesh import Mesh
from penstock.parallel.full_cost import Site, Trainer
from penstock.predict import DEVICES, Chip, Precision, device_named

USABLE = 0.92
"""Share of a device's memory a plan may use by default; the rest is the driver's, the allocator's and the network's."""
_SHORT = re.compile(r"(?:(\d+)x)?(\d+)x([a-z][\w./]*(?:-\w+)*?)(?:-(\d+(?:\.\d+)?\s*Gi?B))?", re.IGNORECASE)
_TRY = 'Try "8xV100-32GB", "4x8xA100-80GB" or a YAML or JSON file'


@dataclass(frozen=True, slots=True)
class Links:
    """Bytes/s in one direction: of one device to its neighbours, and of one node to the network."""

    device: float
    network: float
    note: str


TYPICAL = {
    "nvlink4": Links(450e9, 400e9, "NVLink 4 and eight NDR InfiniBand ports per node"),
    "nvlink3": Links(300e9, 100e9, "NVLink 3 and four HDR InfiniBand ports per node"),
    "nvlink2": Links(150e9, 12.5e9, "NVLink 2 and one EDR InfiniBand port per node"),
    "hccs": Links(196e9, 100e9, "HCCS and eight 100 Gb/s ports per node"),
    "pcie4": Links(25e9, 12.5e9, "PCIe 4 and 100 Gb/s per node"),
    "pcie3": Links(12.5e9, 12.5e9, "PCIe 3 and 100 Gb/s per node"),
    "gloo": Links(2e9, 1.25e9, "shared memory and 10 Gb/s per node"),
}


@dataclass(frozen=True, kw_only=True)
class PlanCluster:
    """``nodes`` of ``per_node`` equal devices; ``memory_bytes`` is what a plan may use on each."""

    chip: Chip
    nodes: int
    per_node: int
    memory_bytes: float
    links: Links

    @property
    def name(self) -> str:
        return f"{self.nodes}x{self.per_node}x{self.chip.name.upper()}"

    @property
    def devices(self) -> int:
        return self.nodes * self.per_node

    def mesh(self) -> Mesh:
        return Mesh(nodes=self.nodes, per_node=self.per_node, memory_mb=self.memory_bytes / 2**20)

    def part(self, devices: int) -> "PlanCluster":
        """The same machines with only the first ``devices`` devices."""
        if devices < 1 or devices > self.devices:
            raise ClusterError(f"{devices} devices of {self.name}", f"1 to {self.devices}")
        mesh = self.mesh().part(devices)
        return replace(self, nodes=mesh.nodes, per_node=mesh.per_node)

    def limited(self, memory_bytes: float) -> "PlanCluster":
        if not 0 < memory_bytes <= self.chip.memory_bytes * 1.08:
            raise ClusterError(
                f"a memory limit of {format_bytes(memory_bytes)} on {self.chip.name}",
                f"more than nothing and at most the device's {format_bytes(self.chip.memory_bytes)}",
                "Leave --memory away to use what the device has",
            )
        return replace(self, memory_bytes=memory_bytes)

    def site(self, precision: Precision, trainer: Trainer | None = None) -> Site:
        return Site(
            device=device_model(self.chip, precision), network=self.network(), nodes=self.nodes,
            per_node=self.per_node, memory_bytes=self.memory_bytes, trainer=trainer or Trainer(),
        )  # fmt: skip

    def network(self) -> Network:
        return Network(link=self.links.device, node_network=self.links.network)


def cluster_named(text: str) -> PlanCluster:
    """A cluster from "4x8xA100-80GB" (nodes, devices per node, kind), "8xV100-32GB" (one node), or a file.

    >>> cluster_named("2x8xH200").devices
    16
    """
    if text.endswith((".yaml", ".yml", ".json")):
        return cluster_from_file(Path(text))
    found = _SHORT.fullmatch(text.strip())
    if found is None:
        raise ClusterError(f"{text!r} is not a cluster to plan for", "[NODESx]DEVICESxKIND[-MEMORY]", _TRY)
    nodes, per_node = int(found[1] or 1), int(found[2])
    if not nodes or not per_node:
        raise ClusterError(f"{text!r} has no devices", "at least one node with one device", _TRY)
    chip = _chip(found[3], found[4])
    return PlanCluster(
        chip=chip, nodes=nodes, per_node=per_node, memory_bytes=USABLE * chip.memory_bytes, links=TYPICAL[chip.link]
    )


def _chip(kind: str, memory: str | None) -> Chip:
    """The device of that kind, with the memory the name gives it."""
    if memory is None:
        return device_named(kind)
    whole = f"{kind}-{memory}".lower()
    if whole in DEVICES:
        return DEVICES[whole]
    return replace(device_named(kind), memory_bytes=float(parse_bytes(memory)))


def cluster_from_file(path: Path) -> PlanCluster:
    """A cluster from a YAML or JSON file.

    ``nodes``, ``devices_per_node``, ``device`` (a name), and if they differ from what is typical: ``memory`` ("80GB"),
    ``links`` with ``device`` and ``network`` in bytes per second ("300GB").
    """
    given = _read(path)
    unknown = set(given) - {"nodes", "devices_per_node", "device", "memory", "links"}
    if unknown:
        raise UnknownNameError.of(
            f"field of {path}", sorted(unknown)[0], ("nodes", "devices_per_node", "device", "memory", "links")
        )
    base = cluster_named(
        f"{_count(path, given, 'nodes', 1)}x{_count(path, given, 'devices_per_node')}x{_name(path, given)}"
    )
    memory = _bytes(path, given, "memory", base.chip.memory_bytes)
    links = given.get("links") or {}
    if not isinstance(links, Mapping):
        raise ClusterError(f"{path}: links is {links!r}", "a mapping with device and network")
    return replace(
        base, chip=replace(base.chip, memory_bytes=memory), memory_bytes=USABLE * memory,
        links=Links(
            _bytes(path, links, "device", base.links.device), _bytes(path, links, "network", base.links.network),
            f"from {path.name}" if links else base.links.note,
        ),
    )  # fmt: skip


def _read(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise ClusterError(f"cannot read {path}: {problem.strerror}", "a YAML or JSON file", _TRY) from problem
    given = _parsed(path, text)
    if not isinstance(given, Mapping):
        raise ClusterError(f"{path} holds a {type(given).__name__}", "fields like nodes, devices_per_node and device")
    return given


def _parsed(path: Path, text: str) -> Any:
    if path.suffix == ".json":
        try:
            return json.loads(text)
        except ValueError as problem:
            raise ClusterError(f"{path} is not JSON: {problem}", "an object") from problem
    try:
        import yaml
    except ImportError:
        raise ClusterError(
            f"{path} is YAML, and pyyaml is not installed", "a JSON file", "pip install pyyaml"
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise ClusterError(f"{path} is not YAML: {problem}", "a mapping") from problem


def _count(path: Path, given: Mapping[str, Any], field: str, default: int = 0) -> int:
    value = given.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ClusterError(f"{path}: {field} is {value!r}", "a whole number of at least 1")
    return value


def _name(path: Path, given: Mapping[str, Any]) -> str:
    name = given.get("device")
    if not isinstance(name, str) or not name:
        raise ClusterError(f"{path}: device is {name!r}", f"one of {', '.join(sorted(DEVICES))}")
    return device_named(name).name.upper() if name.lower() in DEVICES else name


def _bytes(path: Path, given: Mapping[str, Any], field: str, default: float) -> float:
    value = given.get(field)
    if value is None:
        return default
    try:
        return float(parse_bytes(str(value).removesuffix("/s")))
    except UnitError as problem:
        raise ClusterError(f"{path}: {field} is {value!r}", 'a size like "300GB"') from problem
