"""Links between devices: what a collective pays to start, per hop and per byte.

``nvlink3`` and ``nvlink2`` are fitted to measured all-reduce times of 2 to 8 A100 and V100 (vTrain's public table;
``python -m bench.hardware`` repeats the fit and reports its errors). The others have the published bandwidth times the
share of it that the fitted ones reach, and latencies of their class. :data:`NODE_NETWORKS` says what usually joins the
nodes of machines that are sold with a link.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from penstock.core import InputError, UnknownNameError

REACHED = 0.77
"""Share of a published rate that collectives reach: 232 of 300 GB/s on NVLink 3."""
NETWORK_HOP_S = 10e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Seconds and bytes per second of the bus (what one device can send while it receives).

    ``ramp_s`` is the cost per square root of a byte sent: pipelines fill slowly, so large messages are carried faster.
    ``share_by_devices`` is for wirings where a ring of three is not as fast as one of four: the bandwidth at each
    number of devices as a share of ``bandwidth``.
    """

    name: str
    start_s: float
    hop_s: float
    bandwidth: float
    ramp_s: float = 0.0
    share_by_devices: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    source: str = ""

    def __post_init__(self) -> None:
        if not (self.bandwidth > 0 and all(time >= 0 for time in (self.start_s, self.hop_s, self.ramp_s))):
            raise InputError(f"link {self.name!r} of {self.bandwidth} B/s", "a positive bandwidth, no negative times")

    def rate(self, devices: int) -> float:
        """Bytes per second out of each of so many devices that use the link together."""
        return self.bandwidth * self.share_by_devices.get(devices, 1.0)

    def carry_s(self, sent_bytes: float, devices: int) -> float:
        """Seconds to send so many bytes out of each device, once the pipeline runs."""
        return sent_bytes / self.rate(devices) + self.ramp_s * math.sqrt(sent_bytes)


_NVLINK2_SHARES = MappingProxyType({2: 0.166, 3: 0.333, 4: 0.631, 5: 0.273, 6: 0.338, 7: 0.645, 8: 1.0})

LINKS: dict[str, Link] = {
    link.name: link
    for link in (
        Link(name="nvlink5", start_s=34.5e-6, hop_s=0.0, bandwidth=696e9, ramp_s=4.8e-9,
             source="900 GB/s per direction at the share nvlink3 reaches"),
        Link(name="infinity-fabric", start_s=34.5e-6, hop_s=5e-6, bandwidth=300e9, ramp_s=6.8e-9,
             source="448 GB/s per direction (seven links of an MI300X) at two thirds"),
        Link(name="nvlink4", start_s=34.5e-6, hop_s=0.0, bandwidth=348e9, ramp_s=6.8e-9,
             source="450 GB/s per direction at the share nvlink3 reaches"),
        Link(name="nvlink3", start_s=34.5e-6, hop_s=0.0, bandwidth=232.3e9, ramp_s=8.28e-9,
             source="fitted to vTrain's table of A100"),
        Link(name="nvlink2", start_s=18.2e-6, hop_s=3.86e-6, bandwidth=135.9e9, share_by_devices=_NVLINK2_SHARES,
             source="fitted to vTrain's table of V100 (a cube mesh: counts differ)"),
        Link(name="pcie5", start_s=20e-6, hop_s=8e-6, bandwidth=40e9, source="64 GB/s per direction, through the host"),
        Link(name="pcie4", start_s=20e-6, hop_s=8e-6, bandwidth=20e9, source="32 GB/s per direction, through the host"),
        Link(name="pcie3", start_s=20e-6, hop_s=8e-6, bandwidth=10e9, source="16 GB/s per direction, through the host"),
        Link(name="hccs", start_s=30e-6, hop_s=5e-6, bandwidth=150e9, source="196 GB/s per direction as reported"),
        Link(name="infiniband-400g", start_s=30e-6, hop_s=5e-6, bandwidth=45e9, source="400 Gbit/s per device"),
        Link(name="infiniband-200g", start_s=30e-6, hop_s=5e-6, bandwidth=22e9, source="200 Gbit/s per device"),
        Link(name="ethernet-100g", start_s=50e-6, hop_s=15e-6, bandwidth=10e9, source="100 Gbit/s per node"),
        Link(name="ethernet-10g", start_s=80e-6, hop_s=40e-6, bandwidth=1.1e9, source="10 Gbit/s per node"),
        Link(name="gloo", start_s=200e-6, hop_s=150e-6, bandwidth=1.0e9, source="gloo between processes of one host"),
    )
}  # fmt: skip


def _node_network(gigabytes: float, source: str) -> Link:
    return Link(name="node-network", start_s=0.0, hop_s=NETWORK_HOP_S, bandwidth=REACHED * gigabytes * 1e9,
                source=source)  # fmt: skip


NODE_NETWORKS: dict[str, Link] = {
    "nvlink5": _node_network(400, "eight NDR InfiniBand ports per node"),
    "infinity-fabric": _node_network(400, "eight NDR InfiniBand ports per node"),
    "nvlink4": _node_network(400, "eight NDR InfiniBand ports per node"),
    "nvlink3": _node_network(100, "four HDR InfiniBand ports per node"),
    "nvlink2": _node_network(12.5, "one EDR InfiniBand port per node"),
    "hccs": _node_network(100, "eight 100 Gb/s ports per node"),
    "pcie5": _node_network(50, "400 Gb/s per node"),
    "pcie4": _node_network(12.5, "100 Gb/s per node"),
    "pcie3": _node_network(12.5, "100 Gb/s per node"),
    "gloo": _node_network(1.25, "10 Gb/s per node"),
}
"""What all devices of a node share on the way to other nodes, by the link inside the node."""


def link_named(name: str) -> Link:
    if name not in LINKS:
        raise UnknownNameError.of("link", name, LINKS)
    return LINKS[name]
