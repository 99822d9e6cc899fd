"""How long collectives take: alpha-beta models of rings, trees and hierarchies, and what backward hides of them."""

import math
from collections.abc import Sequence

from penstock.core import InputError
from penstock.predict.hardware.links import Link, link_named

_BUCKET_BYTES = 25e6
"""PyTorch's DDP collects gradients in buckets of this size."""


def allreduce_s(size_bytes: float, devices: int, link: str | Link) -> float:
    """The faster of ring and double binary tree, as NCCL chooses."""
    return min(ring_allreduce_s(size_bytes, devices, link), tree_allreduce_s(size_bytes, devices, link))


def ring_allreduce_s(size_bytes: float, devices: int, link: str | Link) -> float:
    """Two rounds of n - 1 steps, each device sending 2(n - 1)/n of the data."""
    return 2 * _half_ring_s(size_bytes, devices, _link(link), rounds=2)


def tree_allreduce_s(size_bytes: float, devices: int, link: str | Link) -> float:
    """Up and down two complementary trees, chunk by chunk: few steps, twice the data through every inner node."""
    wire = _link(link)
    if _alone(size_bytes, devices):
        return 0.0
    steps = 2 * math.ceil(math.log2(devices))
    return wire.start_s + steps * wire.hop_s + wire.carry_s(2 * size_bytes, devices)


def allgather_s(size_bytes: float, devices: int, link: str | Link) -> float:
    """``size_bytes`` is what every device has in the end."""
    return _half_ring_s(size_bytes, devices, _link(link), rounds=1)


def reduce_scatter_s(size_bytes: float, devices: int, link: str | Link) -> float:
    """``size_bytes`` is what every device has at the start."""
    return allgather_s(size_bytes, devices, link)


def p2p_s(size_bytes: float, link: str | Link) -> float:
    """One message from one device to its neighbour."""
    wire = _link(link)
    return 0.0 if _alone(size_bytes, 2) else wire.start_s + wire.hop_s + wire.carry_s(size_bytes, 2)


def hierarchical_allreduce_s(
    size_bytes: float, nodes: int, devices_per_node: int, inside: str | Link, between: str | Link
) -> float:
    """Reduce-scatter inside each node, all-reduce of the shards between nodes, all-gather inside."""
    within = reduce_scatter_s(size_bytes, devices_per_node, inside) + allgather_s(size_bytes, devices_per_node, inside)
    return within + allreduce_s(size_bytes / max(1, devices_per_node), nodes, between)


def exposed_s(bucket_s: Sequence[float], backward_s: float) -> float:
    """What is left of the buckets' communication after backward has ended.

    Buckets fill evenly over the backward pass and travel one after another; the last one can only start when backward
    is over, so at least that one is always seen.
    """
    done = 0.0
    for number, seconds in enumerate(bucket_s, start=1):
        done = max(done, backward_s * number / len(bucket_s)) + seconds
    return max(0.0, done - backward_s)


def data_parallel_s(
    gradient_bytes: float, devices: int, link: str | Link, backward_s: float, *, bucket_bytes: float = _BUCKET_BYTES
) -> float:
    """Seconds that averaging gradients adds to an iteration, overlapped with backward bucket by bucket."""
    if _alone(gradient_bytes, devices):
        return 0.0
    buckets = max(1, math.ceil(gradient_bytes / bucket_bytes))
    return exposed_s([allreduce_s(gradient_bytes / buckets, devices, link)] * buckets, backward_s)


def _half_ring_s(size_bytes: float, devices: int, wire: Link, *, rounds: int) -> float:
    """One of the rounds of a ring collective that has so many; the start is shared among them."""
    if _alone(size_bytes, devices):
        return 0.0
    sent = rounds * (devices - 1) / devices * size_bytes
    return (wire.start_s + wire.carry_s(sent, devices)) / rounds + (devices - 1) * wire.hop_s


def _link(link: str | Link) -> Link:
    return link if isinstance(link, Link) else link_named(link)


def _alone(size_bytes: float, devices: int) -> bool:
    if devices < 1 or not (0 <= size_bytes < math.inf):
        raise InputError(f"{size_bytes} bytes among {devices} devices", "at least one device and no negative size")
    return devices == 1 or size_bytes == 0
