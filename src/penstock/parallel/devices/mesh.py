"""The devices a plan is made for, as a search sees them: how many, in which nodes, with how much memory."""

from dataclasses import dataclass, replace
from typing import Self

from penstock.core import ClusterError, PlanError

MB = float(2**20)
STAGE_DEVICES = (1, 2, 4, 8)
"""Numbers of devices a stage may have."""


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """``nodes`` machines with ``per_node`` equal devices; a plan may use ``memory_bytes`` on each.

    Devices are numbered through the nodes. A stage lies inside one node or fills whole ones; the searches stay inside
    one, with 1, 2, 4 or 8 devices per stage, as Aceso does.
    """

    nodes: int = 1
    per_node: int
    memory_bytes: float

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.per_node < 1:
            raise PlanError(f"{self.nodes} nodes of {self.per_node} devices", "1 or more of each")
        if not self.memory_bytes > 0:
            raise PlanError(f"a memory limit of {self.memory_bytes} bytes", "more than 0")

    @property
    def devices(self) -> int:
        return self.nodes * self.per_node

    @property
    def memory_mb(self) -> float:
        return self.memory_bytes / MB

    def fits(self, offset: int, devices: int) -> bool:
        """Whether a stage of ``devices`` devices from ``offset`` on stays inside a node or fills whole nodes."""
        within = offset % self.per_node
        return within + devices <= self.per_node or (within == 0 and devices % self.per_node == 0)

    def enters_by_network(self, offset: int) -> bool:
        return offset > 0 and offset % self.per_node == 0

    def leaves_by_network(self, end: int) -> bool:
        return end % self.per_node == 0

    def part(self, devices: int) -> Self:
        """The same machines with only the first ``devices`` devices: part of one node, or whole nodes."""
        if not 1 <= devices <= self.devices:
            raise ClusterError(f"{devices} devices of {self.nodes} nodes of {self.per_node}", f"1 to {self.devices}")
        if devices <= self.per_node:
            return replace(self, nodes=1, per_node=devices)
        if devices % self.per_node:
            raise PlanError(f"{devices} devices of nodes of {self.per_node}", "whole nodes, or less than one")
        return replace(self, nodes=devices // self.per_node)
