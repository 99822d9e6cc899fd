"""Linear layers in fp8: what devices reach of twice their bf16 peak, and what casting costs.

As Transformer Engine trains: weights stay in bf16 with fp32 beside them, products of linear layers read fp8 and write
bf16, attention, norms, logits and communication stay as they are. Inputs and output gradients are cast by a scale of
the tensor at hand (current scaling), each into a copy by rows and one by columns; weights once after every step.
"""

from dataclasses import dataclass, fields, replace

from penstock.core import PlanError
from penstock.parallel.families import OpWork, Product
from penstock.parallel.operator_costs.roofline import DeviceModel, bounded
from penstock.predict import Chip, Precision

FASTER = 2.0
"""Peak in fp8 against bf16: the same on every data sheet since Ada and MI300."""
MEASURED = {"h100": 0.709 / 0.803, "h200": 0.734 / 0.803, "b200": 0.763 / 0.776}
"""Share of its peak that the best product reaches in fp8, against bf16: S. Bekman, "Machine Learning Engineering"
(commit 744d01e), tables of maximum achievable matmul FLOPS."""
OTHERS = ("l40s", "l4", "rtx4090", "mi300x")
"""Devices with fp8 whose products nobody measured there: the least of the measured shares."""
CAST_BYTES = 6.0
"""Per element that is cast: two read for the largest value, two read again, two copies of one byte written."""
ALIGNED = 16
"""Sides of a product that fp8 units take; others stay in bf16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fp8Device(DeviceModel):
    """``fp8_share``: of the rate of products that linear layers reach of twice that rate."""

    fp8_share: float

    @property
    def fp8_rate(self) -> float:
        """FLOP/s of linear layers."""
        return FASTER * self.peak * self.compute_share * self.fp8_share

    def product_s(self, product: Product, batch: int, tp: int, element_bytes: int) -> float:
        m, n, k, count = product.at(batch, tp)
        if not product.narrow or any(side % ALIGNED for side in (m, n, k)):
            return DeviceModel.product_s(self, product, batch, tp, element_bytes)
        moved = count * (m * k + k * n + element_bytes * m * n)
        return bounded(2.0 * m * n * k * count / self.fp8_rate, self.moved_s(moved))

    def forward_s(self, work: OpWork, batch: int, tp: int, element_bytes: int, *, sequence_parallel: bool) -> float:
        usual = DeviceModel.forward_s(self, work, batch, tp, element_bytes, sequence_parallel=sequence_parallel)
        return usual + self.moved_s(cast_bytes(work, batch, tp, backward=False))

    def backward_s(self, work: OpWork, batch: int, tp: int, element_bytes: int, *, sequence_parallel: bool) -> float:
        usual = DeviceModel.backward_s(self, work, batch, tp, element_bytes, sequence_parallel=sequence_parallel)
        return usual + self.moved_s(cast_bytes(work, batch, tp, backward=True))


def fp8_device(chip: Chip) -> Fp8Device:
    """The device with its linear layers in fp8; refuses one that has none."""
    family = chip.name.split("-")[0]
    if family not in MEASURED and family not in OTHERS:
        raise PlanError(
            f"{chip.name} does not compute in fp8", f"one of {', '.join((*MEASURED, *OTHERS))}",
            "Leave --precision away to plan in half precision",
        )  # fmt: skip
    usual = DeviceModel.of(chip, Precision.BF16)
    rates = {each.name: getattr(usual, each.name) for each in fields(usual)}
    rates["optimizer_bytes"] += CAST_BYTES
    found = Fp8Device(**rates, fp8_share=MEASURED.get(family, min(MEASURED.values())))
    return replace(found, source=f"{usual.source}; linear layers in fp8 at {found.fp8_rate / 1e12:.0f} TFLOP/s")


def cast_bytes(work: OpWork, batch: int, tp: int, *, backward: bool) -> float:
    """Traffic of casting: inputs on the way forward, the output's gradient on the way back."""
    total = 0.0
    for product in work.products:
        if product.narrow:
            m, n, k, count = product.at(batch, tp)
            total += CAST_BYTES * count * m * (n if backward else k)
    return total
