"""The devices a plan is made for."""

from dataclasses import dataclass

from penstock.core import PlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """``nodes`` machines with ``per_node`` equal devices; a plan may use ``memory_mb`` megabytes on each.

    Devices are numbered through the nodes. A stage lies inside one node or fills whole ones; the searches stay inside
    one, with 1, 2, 4 or 8 devices per stage, as Aceso does.
    """

    nodes: int = 1
    per_node: int
    memory_mb: float

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.per_node < 1:
            raise PlanError(f"{self.nodes} nodes of {self.per_node} devices", "1 or more of each")
        if not self.memory_mb > 0:
            raise PlanError(f"a memory limit of {self.memory_mb} MB", "more than 0")

    @property
    def devices(self) -> int:
        return self.nodes * self.per_node

    def fits(self, offset: int, devices: int) -> bool:
        """Whether a stage of ``devices`` devices from ``offset`` on stays inside a node or fills whole nodes."""
        within = offset % self.per_node
        return within + devices <= self.per_node or (within == 0 and devices % self.per_node == 0)

    def enters_by_network(self, offset: int) -> bool:
        return offset > 0 and offset % self.per_node == 0

    def leaves_by_network(self, end: int) -> bool:
        return end % self.per_node == 0

    def part(self, devices: int) -> "Mesh":
        """The same machines with only the first ``devices`` devices."""
        if devices <= self.per_node:
            return Mesh(nodes=1, per_node=devices, memory_mb=self.memory_mb)
        if devices % self.per_node:
            raise PlanError(f"{devices} devices of nodes of {self.per_node}", "whole nodes, or less than one")
        return Mesh(nodes=devices // self.per_node, per_node=self.per_node, memory_mb=self.memory_mb)


STAGE_DEVICES = (1, 2, 4, 8)
"""Numbers of devices a stage may have."""
