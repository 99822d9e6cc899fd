"""How long collectives take among equal neighbours: alpha-beta models of rings and trees over one link."""

import math

from penstock.core import InputError
from penstock.network.links import Link, link_named


def allreduce_s(size_bytes: float, devices: int, link: str | Link) -> float:
    """The faster of ring and double binary tree, as NCCL chooses."""
    return min(ring_allreduce_s(size_bytes, devices, link), tree_allreduce_s(size_bytes, devices, link))


def ring_allreduce_s(size_bytes: float, devices: int, link: str | Link) -> float:
    """Two rounds of n - 1 steps, each device sending 2(n - 1)/n of the data."""
    wire = _link(link)
    return ring_s(size_bytes, devices, wire, hops_s=(devices - 1) * wire.hop_s, rounds=2)


def tree_allreduce_s(size_bytes: float, devices: int, link: str | Link) -> float:
    """Up and down two complementary trees, chunk by chunk: few steps, twice the data through every inner node."""
    wire = _link(link)
    if alone(size_bytes, devices):
        return 0.0
    steps = 2 * math.ceil(math.log2(devices))
    return wire.start_s + steps * wire.hop_s + wire.carry_s(2 * size_bytes, devices)


def allgather_s(size_bytes: float, devices: int, link: str | Link) -> float:
    """``size_bytes`` is what every device has in the end."""
    wire = _link(link)
    return ring_s(size_bytes, devices, wire, hops_s=(devices - 1) * wire.hop_s, rounds=1)


def reduce_scatter_s(size_bytes: float, devices: int, link: str | Link) -> float:
    """``size_bytes`` is what every device has at the start."""
    return allgather_s(size_bytes, devices, link)


def send_s(size_bytes: float, link: str | Link) -> float:
    """One message from one device to its neighbour."""
    wire = _link(link)
    return 0.0 if alone(size_bytes, 2) else wire.start_s + wire.hop_s + wire.carry_s(size_bytes, 2)


def ring_s(size_bytes: float, devices: int, wire: Link, *, hops_s: float, rounds: int) -> float:
    """So many rounds of a ring: one start, every device sends (n - 1)/n of the data in each, each passes all hops."""
    if alone(size_bytes, devices):
        return 0.0
    sent = rounds * (devices - 1) / devices * size_bytes
    return wire.start_s + wire.carry_s(sent, devices) + rounds * hops_s


def alone(size_bytes: float, devices: int) -> bool:
    """Whether there is nothing to send or nobody to send it to."""
    if devices < 1 or not (0 <= size_bytes < math.inf):
        raise InputError(f"{size_bytes} bytes among {devices} devices", "at least one device and no negative size")
    return devices == 1 or size_bytes == 0


def _link(link: str | Link) -> Link:
    return link if isinstance(link, Link) else link_named(link)
