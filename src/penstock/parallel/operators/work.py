"""What one operator of a model does, in amounts that hold for any device: products, bytes, weights, what is kept.

All amounts are those of one sample. A :class:`Volume` says how it behaves under tensor parallelism; nothing here
knows a time. :mod:`penstock.parallel.operator_costs` turns amounts into the tables a search reads.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.parallel.operators.chain import OpKind
from penstock.parallel.operators.tensor_layout import TensorLayout


class Divides(StrEnum):
    """Which side of a product tensor parallelism cuts."""

    NOTHING = "nothing"
    COLUMNS = "columns"
    INNER = "inner"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Volume:
    """An amount: ``whole`` lies on every tensor-parallel rank, ``split`` is divided among the ranks."""

    whole: float = 0.0
    split: float = 0.0

    def at(self, tp: int, *, sequence_parallel: bool = False) -> float:
        """The amount of one rank; sequence parallelism divides what would be replicated."""
        return (self.whole / tp if sequence_parallel else self.whole) + self.split / tp

    def times(self, factor: float) -> "Volume":
        return Volume(self.whole * factor, self.split * factor)

    @property
    def total(self) -> float:
        return self.whole + self.split


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """``count`` matrix products of (rows x inner) by (inner x columns).

    With ``weight`` the right side is a parameter, so that more samples mean more rows; without, as in attention, more
    samples mean more products. ``backward`` is the forward work the backward pass repeats (2: one product for each
    gradient; 2.5 for fused attention, which recomputes its scores).
    """

    rows: int
    columns: int
    inner: int
    count: int = 1
    divides: Divides = Divides.NOTHING
    weight: bool = True
    backward: float = 2.0
    fused: bool = False
    """A fused kernel keeps its intermediate results on the chip: its traffic is counted elsewhere."""
    narrow: bool = False
    """Computed in fp8 where a trainer computes in fp8: linear layers of blocks; neither logits nor routers."""

    @property
    def flops(self) -> float:
        return 2.0 * self.rows * self.columns * self.inner * self.count

    def at(self, batch: int, tp: int) -> tuple[float, float, float, float]:
        """(m, n, k, count) on one rank."""
        rows, count = (self.rows * batch, self.count) if self.weight else (self.rows, self.count * batch)
        columns = self.columns / tp if self.divides is Divides.COLUMNS else self.columns
        inner = self.inner / tp if self.divides is Divides.INNER else self.inner
        return rows, columns, inner, count / tp if self.divides is Divides.COUNT else count


@dataclass(frozen=True, slots=True, kw_only=True)
class OpWork:
    """One kind of operator. Bytes per sample unless said otherwise.

    ``moved_forward`` and ``moved_backward``: traffic of the kernels around the products. ``parameters``: elements, per
    model. ``kept``: what the backward pass needs. ``reduced_forward`` and ``reduced_backward``: what tensor-parallel
    ranks must sum. ``kernels``: launches of a forward pass.
    """

    name: str
    products: tuple[Product, ...] = ()
    moved_forward: Volume = Volume()
    moved_backward: Volume = Volume()
    parameters: Volume = Volume()
    kept: Volume = Volume()
    received: Volume = Volume()
    sent: Volume = Volume()
    reduced_forward: float = 0.0
    reduced_backward: float = 0.0
    kernels: int = 1
    starts_layer: bool = False
    tunable: bool = False
    pinned: bool = False
    dispatched: float = 0.0
    """Bytes that are sent to experts on other devices, or come back from them, where experts are divided."""
    norm: bool = False
    """Normalises what a block reads: cheap to compute again."""
    attends: bool = False
    """Looks across the whole sequence: the operator context parallelism has to communicate for."""
    layout: tuple[TensorLayout | None, TensorLayout | None] = (None, None)

    @property
    def flops(self) -> float:
        return sum(product.flops for product in self.products)

    @property
    def training_flops(self) -> float:
        """Of a forward and a backward pass without recomputation."""
        return sum(product.flops * (1 + product.backward) for product in self.products)

    @property
    def on_chip(self) -> bool:
        """Whether it is a step of a fused kernel, whose steps hand their results on without writing them."""
        return self.attends and (not self.kernels or any(product.fused for product in self.products))

    def named(self, name: str) -> "OpWork":
        return replace(self, name=name)

    def kind(self) -> OpKind:
        return OpKind(
            name=self.name, starts_layer=self.starts_layer, tunable=self.tunable, pinned=self.pinned,
            seeds_recompute=not (self.starts_layer or self.pinned), expert=self.dispatched > 0,
        )  # fmt: skip
