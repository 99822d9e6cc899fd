"""A mesh of one kind of device: its chip, its links, and the models of both that price work on it."""

from dataclasses import dataclass, replace
from typing import Self

from penstock.core import ClusterError, format_bytes
from penstock.network import Fabric
from penstock.parallel.devices.mesh import Mesh
from penstock.parallel.devices.priced_mesh import PricedMesh, Trainer
from penstock.parallel.operator_costs import device_model, fp8_device
from penstock.predict import Chip, Precision

USABLE = 0.92
"""Share of a device's memory a plan may use by default; the rest is the driver's, the allocator's and the network's."""


@dataclass(frozen=True, kw_only=True)
class ChipMesh(Mesh):
    """A mesh of one kind of device with known links: what a name or a file says."""

    chip: Chip
    fabric: Fabric

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
        trainer = trainer or self.usual_trainer(precision)
        device = fp8_device(self.chip) if trainer.fp8 else device_model(self.chip, precision)
        device = replace(
            device, unfused=trainer.traffic, compute_share=trainer.products * device.compute_share,
            attention_share=trainer.attention * device.attention_share,
        )  # fmt: skip
        return PricedMesh(
            device=device, fabric=self.fabric, nodes=self.nodes, per_node=self.per_node,
            memory_bytes=self.memory_bytes, trainer=trainer,
        )  # fmt: skip

    def usual_trainer(self, precision: Precision) -> Trainer:
        """Trainers compute in bf16 where the device does, and then sum gradients in fp32."""
        wide = precision is Precision.FP16 and Precision.BF16 in dict(self.chip.peaks)
        return Trainer(gradient_bytes=4.0 if wide else 0.0)
