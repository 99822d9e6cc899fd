"""A mesh of one kind of device: its chip, its links, and the models of both that price work on it."""

from dataclasses import dataclass, replace
from typing import Self

from penstock.core import ClusterError, format_bytes
from penstock.parallel.devices.mesh import Mesh
from penstock.parallel.devices.priced_mesh import PricedMesh, Trainer
from penstock.parallel.operator_costs import Network, device_model
from penstock.predict import Chip, Precision

USABLE = 0.92
"""Share of a device's memory a plan may use by default; the rest is the driver's, the allocator's and the network's."""


@dataclass(frozen=True, slots=True)
class NodeLinks:
    """Bytes/s in one direction: of one device to its neighbours, and of one node to the network."""

    device: float
    network: float
    note: str


TYPICAL = {
    "nvlink4": NodeLinks(450e9, 400e9, "NVLink 4 and eight NDR InfiniBand ports per node"),
    "nvlink3": NodeLinks(300e9, 100e9, "NVLink 3 and four HDR InfiniBand ports per node"),
    "nvlink2": NodeLinks(150e9, 12.5e9, "NVLink 2 and one EDR InfiniBand port per node"),
    "hccs": NodeLinks(196e9, 100e9, "HCCS and eight 100 Gb/s ports per node"),
    "pcie4": NodeLinks(25e9, 12.5e9, "PCIe 4 and 100 Gb/s per node"),
    "pcie3": NodeLinks(12.5e9, 12.5e9, "PCIe 3 and 100 Gb/s per node"),
    "gloo": NodeLinks(2e9, 1.25e9, "shared memory and 10 Gb/s per node"),
}


@dataclass(frozen=True, kw_only=True)
class ChipMesh(Mesh):
    """A mesh of one kind of device with known links: what a name or a file says."""

    chip: Chip
    links: NodeLinks

    @property
    def name(self) -> str:
        return f"{self.nodes}x{self.per_node}x{self.chip.name.upper()}"

    def limited(self, memory_bytes: float) -> Self:
        if not 0 < memory_bytes <= self.chip.memory_bytes * 1.08:
            raise ClusterError(
                f"a memory limit of {format_bytes(memory_bytes)} on {self.chip.name}",
                f"more than nothing and at most the device's {format_bytes(self.chip.memory_bytes)}",
                "Leave --memory away to use what the device has",
            )
        return replace(self, memory_bytes=memory_bytes)

    def priced(self, precision: Precision, trainer: Trainer | None = None) -> PricedMesh:
        return PricedMesh(
            device=device_model(self.chip, precision), network=self.network(), nodes=self.nodes,
            per_node=self.per_node, memory_bytes=self.memory_bytes, trainer=trainer or Trainer(),
        )  # fmt: skip

    def network(self) -> Network:
        return Network(link=self.links.device, node_network=self.links.network)
