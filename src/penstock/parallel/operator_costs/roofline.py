"""How long a kernel takes on a device, from its work and a handful of constants.

A roofline that rounds its corner: compute time and memory time are joined by a 4-norm instead of a maximum, so that a
kernel near the ridge takes longer than either. Launching kernels bounds a whole run of operators the same way.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypedDict

from penstock.parallel.families import OpWork, Product
from penstock.predict import Chip, Precision

SHARPNESS = 4
"""Of the corner between two bounds; SEER-like predictors use the same."""
FUSED_ATTENTION = 0.8
"""Of the rate of plain products: FlashAttention-2 reports 73 % of an A100's peak forward and 63 % backward, and on an
H100 the fused attention of cuDNN reaches as much of what products do there."""
TILE = 64
"""Inner sides of products are padded to this in the units that compute them."""


def bounded(*bounds: float, sharpness: float = SHARPNESS) -> float:
    """The time of work that several resources bound, none of them quite exclusively."""
    longest = max(bounds)
    if longest <= 0:
        return 0.0
    return float(longest * math.fsum((bound / longest) ** sharpness for bound in bounds) ** (1 / sharpness))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceModel:
    """Rates in FLOP/s and bytes/s; the shares say how much of the published rates programs reach.

    ``launch_s``: what one kernel costs the host. ``misaligned``: slow-down of a product with an odd side.
    ``optimizer_bytes``: traffic per parameter of an optimizer step. ``collective_slowdown``: what a collective takes
    inside a training step against the same one in a benchmark loop. ``attention_share``: of the rate of plain products
    in fused attention. ``unfused``: traffic between products against that of fused element-wise kernels.
    """

    name: str
    peak: float
    bandwidth: float
    compute_share: float = 0.70
    memory_share: float = 0.75
    launch_s: float = 2e-5
    misaligned: float = 2.5
    optimizer_bytes: float = 28.0
    collective_slowdown: float = 1.3
    attention_share: float = FUSED_ATTENTION
    unfused: float = 1.0
    source: str = "typical shares of the datasheet's rates"

    @classmethod
    def of(cls, chip: Chip, precision: Precision) -> "DeviceModel":
        """From the datasheet, with the constants fitted on measurements where there are any."""
        rates = cls(name=chip.name, peak=chip.peak(precision), bandwidth=chip.bandwidth)
        family = chip.name.split("-")[0]
        return replace(rates, **CALIBRATED[family]) if family in CALIBRATED else rates

    def foresee(
        self, works: Iterable[OpWork], batch: int, tp: int, element_bytes: int, *, sequence_parallel: bool
    ) -> None:
        """Told what will be asked; of use only to those for whom asking at once is cheaper."""

    def moved_s(self, count: float) -> float:
        return count / (self.bandwidth * self.memory_share)

    def product_s(self, product: Product, batch: int, tp: int, element_bytes: int) -> float:
        """The forward pass of a product on one of ``tp`` ranks."""
        m, n, k, count = product.at(batch, tp)
        odd = self.misaligned if n % 2 or k % 2 else 1.0
        padded = 2.0 * m * n * k * count if product.weight else 2.0 * m * count * _inner_sides(n, k)
        compute = odd * padded / (self.peak * self.compute_share)
        if product.fused:
            return compute / self.attention_share
        return bounded(compute, self.moved_s(element_bytes * count * (m * k + k * n + m * n)))

    def forward_s(self, work: OpWork, batch: int, tp: int, element_bytes: int, *, sequence_parallel: bool) -> float:
        products = sum(self.product_s(product, batch, tp, element_bytes) for product in work.products)
        moved = self.unfused * batch * work.moved_forward.at(tp, sequence_parallel=sequence_parallel)
        return products + self.moved_s(moved)

    def backward_s(self, work: OpWork, batch: int, tp: int, element_bytes: int, *, sequence_parallel: bool) -> float:
        """Both gradients, and adding the weight gradient to the sum of the micro-batches."""
        products = sum(p.backward * self.product_s(p, batch, tp, element_bytes) for p in work.products)
        moved = self.unfused * batch * work.moved_backward.at(tp, sequence_parallel=sequence_parallel)
        moved += 3 * element_bytes * work.parameters.at(tp)
        return products + self.moved_s(moved)

    def stretch(self, seconds: float, kernels: float) -> float:
        """By how much launching ``kernels`` kernels stretches work of ``seconds``.

        The host runs ahead of the device, so that a run of operators is bound as a whole, not kernel by kernel.
        """
        return bounded(seconds, kernels * self.launch_s) / seconds if seconds else 1.0

    def optimizer_s(self, parameters: float) -> float:
        return self.moved_s(self.optimizer_bytes * parameters)


class _Constants(TypedDict):
    compute_share: float
    memory_share: float
    launch_s: float
    collective_slowdown: float
    source: str


CALIBRATED: dict[str, _Constants] = {
    "a100": {
        "compute_share": 0.869, "memory_share": 0.721, "launch_s": 4.07e-5, "collective_slowdown": 1.20,
        "source": "fitted on vTrain's single-node measurements (bench.vtrain)",
    },
    "v100": {
        "compute_share": 0.784, "memory_share": 0.772, "launch_s": 5.90e-5, "collective_slowdown": 2.04,
        "source": "fitted on Aceso's operator profiles (bench.analytic)",
    },
}  # fmt: skip
"""Constants by family of devices; optimizer traffic stays that of mixed-precision Adam, which neither source has."""


def _inner_sides(n: float, k: float) -> float:
    """Columns times inner of an attention product, its head dimension padded to whole tiles."""
    return max(n, k) * math.ceil(min(n, k) / TILE) * TILE
