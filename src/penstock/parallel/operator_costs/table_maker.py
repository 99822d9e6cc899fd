"""Cost tables of any model on any device, computed instead of measured.

The same arrays the reader of a profile database makes, so that the same searches run on them. Tensor-parallel
operators include their own collectives; sequence and context parallelism change the tables, not the search.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.core import PlanError
from penstock.network import Fabric, Group
from penstock.parallel.families import Family, OpWork
from penstock.parallel.operator_costs.roofline import DeviceModel
from penstock.parallel.operator_costs.split_attention import SequenceSplit, attention_comm_s
from penstock.parallel.operators import COLUMNS, Collective, CostTables, Floats, MemoryRule, TransferSpeeds

MB = float(2**20)
MICRO = 1e6
ALONE = SequenceSplit()
_LINK_SIZES = tuple(2**power for power in range(11))


@dataclass(frozen=True, kw_only=True)
class TableMaker:
    """Tables of one model on one sort of cluster; ``per_node`` bounds groups that stay inside a node."""

    family: Family
    device: DeviceModel
    fabric: Fabric
    per_node: int
    sequence_parallel: bool = False
    sequence: SequenceSplit = ALONE
    experts: int = 1
    """Replicas over which the experts of a layer are divided."""
    overlaps_tensors: bool = False
    """Whether the collectives of split operators run behind the products they belong to."""

    def tables(self, micro_batches: Sequence[int], tp_degrees: Sequence[int]) -> CostTables:
        shape = (len(self.family.works), len(micro_batches), len(tp_degrees), 1)
        columns = {name: np.full(shape, np.nan) for name in COLUMNS}
        for row, batch in enumerate(micro_batches):
            for column, tp in enumerate(tp_degrees):
                for kind, costs in enumerate(self._all_costs(batch, tp)):
                    for name, value in costs.items():
                        columns[name][kind, row, column, 0] = value
        return self._filled(tuple(micro_batches), tuple(tp_degrees), columns)

    def _filled(
        self, micro_batches: tuple[int, ...], tp_degrees: tuple[int, ...], columns: dict[str, Floats]
    ) -> CostTables:
        fp32 = self.family.element_bytes == 4
        return CostTables(
            chain=self.family.chain(), micro_batches=micro_batches, tp_degrees=tp_degrees,
            activation_scale=np.ones(len(self.family.works)),
            layout_in=tuple((work.layout[0],) for work in self.family.works),
            layout_out=tuple((work.layout[1],) for work in self.family.works),
            links=self._links(), collectives_ms=self._collectives(columns["input_mb"], tp_degrees),
            memory=MemoryRule(main=0.0, optimizer=2.0) if fp32 else MemoryRule(), mixes=True,
            source=self.source, **columns,
        )  # fmt: skip

    @property
    def source(self) -> str:
        return f"computed for {self.device.name}: {self.device.source}"

    def _splits(self, work: OpWork, tp: int) -> bool:
        """Whether an operator can be cut ``tp`` ways: attention only by whole heads."""
        return not work.attends or not self.family.heads or self.family.heads % tp == 0

    def _all_costs(self, batch: int, tp: int) -> Iterator[dict[str, float]]:
        """Costs of every kind in order; the operators of one part are stretched alike by their launches."""
        share = {"sequence_parallel": self.sequence_parallel}
        every = [_of_sequence_part(work, self.sequence.degree) for work in self.family.works]
        self.device.foresee(every, batch, tp, self.family.element_bytes, **share)
        for part, _ in self.family.parts:
            local = [_of_sequence_part(work, self.sequence.degree) for work in part]
            forward = [self._computed_s(self.device.forward_s, work, batch, tp) for work in local]
            backward = [self._computed_s(self.device.backward_s, work, batch, tp) for work in local]
            kernels = sum(work.kernels for work in part)
            ahead = self.device.stretch(sum(forward), kernels)
            back = self.device.stretch(sum(backward), 2 * kernels)
            for work, there, here in zip(local, forward, backward, strict=True):
                yield self._costs(work, batch, tp, ahead * there, back * here) if self._splits(work, tp) else {}

    def _computed_s(self, seconds: Callable[..., float], work: OpWork, batch: int, tp: int) -> float:
        return seconds(work, batch, tp, self.family.element_bytes, sequence_parallel=self.sequence_parallel)

    def _costs(self, work: OpWork, batch: int, tp: int, forward: float, backward: float) -> dict[str, float]:
        """One kind: the seconds it computes, what it communicates, and what it holds."""
        width = self.family.element_bytes
        share = {"sequence_parallel": self.sequence_parallel}
        if work.attends and self.sequence.degree > 1:
            ahead, back = attention_comm_s(self.sequence, self.family, self.fabric, batch, tp, forward, backward)
            forward, backward = forward + ahead, backward + back
        sent = self._dispatched_s(batch * work.dispatched, tp)
        forward, backward = forward + sent, backward + sent
        forward += self._exposed_s(self._summed_s(batch * work.reduced_forward, tp), forward, tp)
        backward += self._exposed_s(self._summed_s(batch * work.reduced_backward, tp), backward, tp)
        return {
            "fwd_us": MICRO * forward, "bwd_us": MICRO * backward,
            "input_mb": batch * work.received.at(tp, **share) / MB,
            "output_mb": batch * work.sent.at(tp, **share) / MB,
            "weight_mb": width * self._held(work, tp) / MB,
            "activation_mb": batch * work.kept.at(tp, **share) / MB,
            "fwd_reserved_mb": 0.0, "bwd_reserved_mb": batch * self._buffers(work, tp) / MB,
        }  # fmt: skip

    def _held(self, work: OpWork, tp: int) -> float:
        """Parameters on one device: of divided experts only its part, of the router before them all."""
        if self.experts == 1 or not work.dispatched:
            return work.parameters.at(tp)
        return work.parameters.whole + work.parameters.split / tp / self.experts

    def _buffers(self, work: OpWork, tp: int) -> float:
        """Bytes that the backward pass of an operator writes beside its results."""
        return work.kept.at(tp) + (0.0 if work.on_chip else work.sent.at(tp))

    def _dispatched_s(self, count: float, tp: int) -> float:
        """Tokens to the devices of their experts, or back; tensor-parallel ranks send a part each."""
        if self.experts == 1 or not count:
            return 0.0
        inside = min(self.experts, max(1, self.per_node // tp))
        group = Group(inside, self.experts // inside, sharing=max(1, self.per_node // inside))
        return self.fabric.all_to_all_s(count / self.sequence.degree / tp, group)

    def _summed_s(self, count: float, tp: int) -> float:
        """An all-reduce between two kernels of a step: inside a node slower than in a loop of nothing else."""
        if not count:
            return 0.0
        group = Group(min(tp, self.per_node), max(1, tp // self.per_node))
        slowdown = self.device.collective_slowdown if group.nodes == 1 else 1.0
        return slowdown * self.fabric.all_reduce_s(count, group)

    def _exposed_s(self, collective: float, behind: float, tp: int) -> float:
        """What of a collective its product does not hide: one of the parts it is cut in, or what is longer."""
        return max(collective / tp, collective - behind) if self.overlaps_tensors else collective

    def _links(self) -> TransferSpeeds:
        """GB/s of one message, between nodes with every device of the node sending."""
        inside = [size * MB / self.fabric.send_s(size * MB, by_network=False) / 1e9 for size in _LINK_SIZES]
        outside = [
            size * MB / self.fabric.send_s(size * MB, by_network=True, senders=self.per_node) / 1e9
            for size in _LINK_SIZES
        ]  # fmt: skip
        return TransferSpeeds(intra_gbps=tuple(inside), inter_gbps=tuple(outside))

    def _collectives(
        self, input_mb: Floats, tp_degrees: tuple[int, ...]
    ) -> dict[tuple[Collective, int], dict[int, float]]:
        """What resharding can ask for: every input size at every group size inside a node."""
        sizes = sorted({round(size) + more for size in input_mb[~np.isnan(input_mb)] for more in (-1, 0)})
        groups = [n for n in (2, 4, 8, 16) if n <= self.per_node and n <= max(*tp_degrees, self.per_node)]
        table: dict[tuple[Collective, int], dict[int, float]] = {}
        for group in map(Group, groups):
            halves = {mb: 1e3 * self.fabric.half_s(max(mb, 0) * MB, group) for mb in sizes}
            table[Collective.ALL_GATHER, group.size] = halves
            table[Collective.REDUCE_SCATTER, group.size] = halves
            table[Collective.ALL_REDUCE, group.size] = {mb: 2 * ms for mb, ms in halves.items()}
            table[Collective.ALL_TO_ALL, group.size] = {
                mb: 1e3 * self.fabric.all_to_all_s(max(mb, 0) * MB, group) for mb in sizes
            }
        return table


def _of_sequence_part(work: OpWork, cut: int) -> OpWork:
    """The operator on 1/cut of every sequence: fewer rows; attention still sees all keys, a part at a time."""
    if cut == 1:
        return work
    for product in work.products:
        if product.rows % cut:
            raise PlanError(f"a sequence of {product.rows} tokens in {cut} parts", "a number of parts that divides it")
    return replace(
        work, products=tuple(replace(product, rows=product.rows // cut) for product in work.products),
        moved_forward=work.moved_forward.times(1 / cut), moved_backward=work.moved_backward.times(1 / cut),
        kept=work.kept.times(1 / cut), received=work.received.times(1 / cut), sent=work.sent.times(1 / cut),
        reduced_forward=work.reduced_forward / cut, reduced_backward=work.reduced_backward / cut,
    )  # fmt: skip
