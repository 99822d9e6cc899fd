"""What splitting sequences over devices costs attention: head-wise, ring-wise, or both ("2D").

The cost model of LoongTrain (arXiv 2406.18485, sections 4 and 5 of its digest): all-to-alls move heads and cannot be
hidden, ring steps move keys and values and hide behind attention itself. With a double ring the slow hop between nodes
happens once per window of steps.
"""

from dataclasses import dataclass
from itertools import product as pairs

from penstock.network import Fabric, Group
from penstock.parallel.families import Family


@dataclass(frozen=True, slots=True)
class SequenceSplit:
    """A sequence cut ``heads * ring`` ways: ``heads`` by attention heads (Ulysses), ``ring`` by position.

    ``window``: steps of the inner ring. ``head_first``: the devices of a head group are neighbours. ``stride``: devices
    between two neighbours (the tensor-parallel degree); ``per_node`` devices share a node.
    """

    heads: int = 1
    ring: int = 1
    window: int = 1
    head_first: bool = True
    per_node: int = 8

    @property
    def degree(self) -> int:
        return self.heads * self.ring


def splits_of(degree: int, family: Family, per_node: int) -> tuple[SequenceSplit, ...]:
    """Every way to cut a sequence ``degree`` ways that the model's heads allow; fewer than a hundred."""
    found = []
    for heads, head_first in pairs(range(1, degree + 1), (True, False)):
        ring = degree // heads
        if degree % heads or family.heads % heads or not _kv_heads_fit(family.kv_heads, heads):
            continue
        windows = [w for w in range(1, ring + 1) if ring % w == 0]
        found += [SequenceSplit(heads, ring, window, head_first, per_node) for window in windows]
    return tuple(found)


def best_split(degree: int, family: Family, fabric: Fabric, per_node: int, flops: float) -> SequenceSplit:
    """The split whose attention takes least time for one sample at ``flops`` FLOP/s."""
    if degree == 1:
        return SequenceSplit(per_node=per_node)
    core = sum(work.flops for work in family.works if work.attends) / degree / flops

    def seconds(split: SequenceSplit) -> float:
        return sum(attention_comm_s(split, family, fabric, 1, 1, core, 2.5 * core))

    return min(splits_of(degree, family, per_node), key=seconds)


def attention_comm_s(
    split: SequenceSplit, family: Family, fabric: Fabric, batch: int, tp: int, forward_s: float, backward_s: float
) -> tuple[float, float]:
    """Seconds attention loses to communication in a forward and a backward pass that compute for the given times."""
    q = 2.0 * batch * family.tokens / split.degree * family.hidden / tp
    kv = 2.0 * q * max(family.kv_heads, split.heads) / max(family.heads, 1)
    exchange = fabric.all_to_all_s(2 * q + kv, head_group(split, tp))
    ahead = exchange + exposed_ring_s(split, fabric, kv, forward_s, tp)
    back = exchange + exposed_ring_s(split, fabric, 2 * kv, backward_s, tp)
    return ahead, back


def exposed_ring_s(split: SequenceSplit, fabric: Fabric, kv: float, compute_s: float, tp: int) -> float:
    """What of a ring's messages is not hidden behind its steps."""
    if split.ring == 1:
        return 0.0
    step = compute_s / split.ring
    inner = fabric.send_s(kv, by_network=not _inside(split, split.window, tp), senders=_crossing(split, tp))
    window = step + (split.window - 1) * max(step, inner)
    windows = split.ring // split.window
    outer = fabric.send_s(kv, by_network=not _inside(split, split.ring, tp), senders=_crossing(split, tp))
    return (windows - 1) * max(window, outer) + window - compute_s


def head_group(split: SequenceSplit, tp: int) -> Group:
    """The devices that exchange heads, tensor-parallel ranks between them."""
    stride = tp if split.head_first else tp * split.ring
    inside = min(split.heads, max(1, split.per_node // stride))
    return Group(inside, split.heads // inside, sharing=max(1, split.per_node // inside))


def _inside(split: SequenceSplit, members: int, tp: int) -> bool:
    """Whether ``members`` consecutive ranks of a ring sit in one node."""
    stride = tp * (split.heads if split.head_first else 1)
    return members * stride <= split.per_node


def _crossing(split: SequenceSplit, tp: int) -> int:
    """Devices of a node that send over the network at the same time: all of them with windows, else a ring's end."""
    stride = tp * (split.heads if split.head_first else 1)
    return split.per_node if split.window > 1 else min(split.per_node, stride)


def _kv_heads_fit(kv_heads: int, heads: int) -> bool:
    return kv_heads % heads == 0 or heads % max(kv_heads, 1) == 0
