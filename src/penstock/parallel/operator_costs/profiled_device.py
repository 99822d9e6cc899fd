"""A device whose kernels were measured: times of a family's operators from the device's own profile.

The roofline has one share of the peak for all products; here every product, attention and element-wise kernel is asked
of the fitted kernel model (:mod:`penstock.predict`), the gradients of a product as the two products they are.
Convolutions are asked as the products they are turned into.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from penstock.parallel.families import OpWork, Product
from penstock.parallel.operator_costs.roofline import DeviceModel
from penstock.predict import Chip, KernelCall, KernelModel, Precision

READS, WRITES = 2, 1
"""Tensors an element-wise kernel reads and writes, as a sum of two does."""


class Calls(NamedTuple):
    """A kernel, and how often it runs; half a kernel where two operators share one."""

    call: KernelCall
    times: float


def device_model(chip: Chip, precision: Precision) -> DeviceModel:
    """The profile measured here or shipped; the roofline where there is none, or no PyTorch to read it with."""
    roofline = DeviceModel.of(chip, precision)
    try:
        from penstock.predict import profile_named

        profile = profile_named(chip.name)
    except ImportError:
        return roofline
    if not profile.measured:
        return roofline
    model = profile.iteration
    rates = {each.name: getattr(roofline, each.name) for each in fields(roofline)}
    rates |= {"launch_s": model.host.forward_s, "source": f"kernels predicted by the profile measured on {chip.name}"}
    return ProfiledDevice(
        **rates, kernels=model.kernels, precision=precision, gap_s=model.gap_s, factor=model.device_factor
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledDevice(DeviceModel):
    """``gap_s``: between two kernels. ``factor``: what a kernel takes in a step against alone."""

    kernels: KernelModel
    precision: Precision
    gap_s: float
    factor: float
    _known: dict[KernelCall, float] = field(default_factory=dict, repr=False, compare=False)

    def foresee(
        self, works: Iterable[OpWork], batch: int, tp: int, element_bytes: int, *, sequence_parallel: bool
    ) -> None:
        """Predict all kernels of these operators at once: a thousand take little longer than one."""
        wanted = [
            each.call
            for work in works
            for passes in (self._forward, self._backward)
            for each in passes(work, batch, tp, element_bytes, sequence_parallel)
            if each.call not in self._known
        ]
        if wanted:
            self._known.update(zip(wanted, self.kernels.predict(wanted).mean_s.tolist(), strict=True))

    def forward_s(self, work: OpWork, batch: int, tp: int, element_bytes: int, *, sequence_parallel: bool) -> float:
        return self._total_s(self._forward(work, batch, tp, element_bytes, sequence_parallel))

    def backward_s(self, work: OpWork, batch: int, tp: int, element_bytes: int, *, sequence_parallel: bool) -> float:
        return self._total_s(self._backward(work, batch, tp, element_bytes, sequence_parallel))

    def _total_s(self, calls: Iterable[Calls]) -> float:
        return self.factor * sum((self._seconds(each.call) + self.gap_s) * each.times for each in calls)

    def _seconds(self, call: KernelCall) -> float:
        if call not in self._known:
            self._known[call] = float(self.kernels.predict([call]).mean_s[0])
        return self._known[call]

    def _forward(
        self, work: OpWork, batch: int, tp: int, element_bytes: int, sequence_parallel: bool
    ) -> Iterator[Calls]:
        yield from self._products(work, batch, tp, element_bytes, backward=False)
        moved = self.unfused * batch * work.moved_forward.at(tp, sequence_parallel=sequence_parallel)
        yield from self._moved(moved, work, element_bytes)

    def _backward(
        self, work: OpWork, batch: int, tp: int, element_bytes: int, sequence_parallel: bool
    ) -> Iterator[Calls]:
        yield from self._products(work, batch, tp, element_bytes, backward=True)
        moved = self.unfused * batch * work.moved_backward.at(tp, sequence_parallel=sequence_parallel)
        yield from self._moved(moved + 3 * element_bytes * work.parameters.at(tp), work, element_bytes)

    def _products(self, work: OpWork, batch: int, tp: int, element_bytes: int, *, backward: bool) -> Iterator[Calls]:
        """Attention half at each of its two products; of any other product its two gradients on the way back."""
        for product in work.products:
            if product.fused:
                yield Calls(self._attention(product, batch, tp, element_bytes, backward=backward), 0.5)
                continue
            m, n, k, count = product.at(batch, tp)
            shapes = ((m, k, n, "nn"), (n, k, m, "tn")) if backward else ((m, n, k, "nt"),)
            for rows, columns, inner, variant in shapes:
                yield self._product(rows, columns, inner, count, product.weight, variant)

    def _product(self, m: float, n: float, k: float, count: float, weight: bool, variant: str) -> Calls:
        """One product with a weight, again and again; products without one run side by side in one kernel."""
        side, times = (1.0, count) if weight else (count, 1.0)
        size = self.precision.bytes
        dims = round(side), round(m), round(n), round(k)
        call = KernelCall(
            family="gemm", dims=dims, precision=self.precision, flops=2.0 * side * m * n * k,
            read_bytes=size * side * (m * k + k * n), written_bytes=size * side * m * n, variant=variant,
        )  # fmt: skip
        return Calls(call, times)

    def _attention(self, product: Product, batch: int, tp: int, element_bytes: int, *, backward: bool) -> KernelCall:
        """The fused kernel that computes this product and its sibling; a causal one has half of its keys counted."""
        _, columns, inner, heads = product.at(batch, tp)
        head_dim, counted = min(columns, inner), max(columns, inner)
        causal = 2 * counted == product.rows
        keys = product.rows if causal else counted
        one = element_bytes * heads * product.rows * head_dim
        many = element_bytes * heads * keys * head_dim
        sums = 4.0 * heads * product.rows
        return KernelCall(
            family="attention_bwd" if backward else "attention",
            dims=(batch, round(heads / batch), product.rows, round(keys), round(head_dim), int(causal)),
            precision=self.precision, flops=4.0 * heads * product.rows * counted * head_dim * (2.5 if backward else 1),
            read_bytes=one + 2 * many + (2 * one + sums if backward else 0.0),
            written_bytes=one + 2 * many if backward else one + sums, variant="cudnn",
        )  # fmt: skip

    def _moved(self, count: float, work: OpWork, element_bytes: int) -> Iterator[Calls]:
        """The traffic around the products, as so many element-wise kernels."""
        if count <= 0:
            return
        kernels = max(1, work.kernels - len(work.products))
        elements = max(1, round(count / kernels / element_bytes / (READS + WRITES)))
        size = float(element_bytes * elements)
        call = KernelCall(
            family="elementwise", dims=(elements, READS, WRITES), precision=self.precision, flops=float(elements),
            read_bytes=READS * size, written_bytes=WRITES * size, variant="add",
        )  # fmt: skip
        yield Calls(call, float(kernels))
