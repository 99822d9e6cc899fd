"""Links between devices: what a collective pays to start, per hop and per byte.

``nvlink3`` and ``nvlink2`` are fitted to measured all-reduce times of 2 to 8 A100 and V100 (vTrain's public table;
``python -m bench.hardware`` repeats the fit and reports its errors). The others have the published bandwidth times the
share of it that the fitted ones reach, and latencies of their class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from penstock.core import InputError, UnknownNameError


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
        if not (self.bandwidth > 0 and min(self.start_s, self.hop_s, self.ramp_s) >= 0):
            raise InputError(f"link {self.name!r} of {self.bandwidth} B/s", "a positive bandwidth, no negative times")

    def carry_s(self, sent_bytes: float, devices: int) -> float:
        """Seconds to send so many bytes out of each device, once the pipeline runs."""
        share = self.share_by_devices.get(devices, 1.0)
        return float(sent_bytes / (self.bandwidth * share) + self.ramp_s * np.sqrt(sent_bytes))

    @classmethod
    def fitted(cls, name: str, times: Sequence["AllReduceTime"], *, shares: bool = False) -> "Link":
        """Least squares on the relative error of ring times; ``shares`` fits a bandwidth per number of devices."""
        counts = sorted({time.devices for time in times})
        groups = counts if shares else [0]
        seconds = np.array([time.seconds for time in times])
        columns = [np.ones(len(times)), np.array([2.0 * (time.devices - 1) for time in times])]
        sent = np.array([time.sent_bytes for time in times])
        columns.append(np.sqrt(sent))
        columns += [sent * np.array([group in (0, time.devices) for time in times]) for group in groups]
        start, hop, ramp, *per_byte = _nonnegative(np.column_stack(columns) / seconds[:, None])
        best = min(per_byte)
        return cls(
            name=name,
            start_s=start,
            hop_s=hop,
            ramp_s=ramp,
            bandwidth=1 / best,
            share_by_devices={count: best / each for count, each in zip(counts, per_byte, strict=True)}
            if shares
            else {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceTime:
    """One measured all-reduce."""

    size_bytes: float
    devices: int
    seconds: float

    @property
    def sent_bytes(self) -> float:
        return 2 * (self.devices - 1) / self.devices * self.size_bytes


def _nonnegative(columns: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[float]:
    """Coefficients of at least zero that bring every row nearest to one, by dropping columns that would go below."""
    scale = np.abs(columns).max(axis=0)
    kept = list(range(columns.shape[1]))
    while True:
        found = np.linalg.lstsq(columns[:, kept] / scale[kept], np.ones(len(columns)), rcond=None)[0]
        if np.all(found >= 0):
            break
        kept.pop(int(found.argmin()))
    solution = np.zeros(columns.shape[1])
    solution[kept] = found / scale[kept]
    return [float(value) for value in solution]


_NVLINK2_SHARES = MappingProxyType({2: 0.166, 3: 0.333, 4: 0.631, 5: 0.273, 6: 0.338, 7: 0.645, 8: 1.0})

LINKS: dict[str, Link] = {
    link.name: link
    for link in (
        Link(name="nvlink4", start_s=34.5e-6, hop_s=0.0, bandwidth=348e9, ramp_s=6.8e-9,
             source="450 GB/s per direction at the share nvlink3 reaches"),
        Link(name="nvlink3", start_s=34.5e-6, hop_s=0.0, bandwidth=232.3e9, ramp_s=8.28e-9,
             source="fitted to vTrain's table of A100"),
        Link(name="nvlink2", start_s=18.2e-6, hop_s=3.86e-6, bandwidth=135.9e9, share_by_devices=_NVLINK2_SHARES,
             source="fitted to vTrain's table of V100 (a cube mesh: counts differ)"),
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


def link_named(name: str) -> Link:
    if name not in LINKS:
        raise UnknownNameError.of("link", name, LINKS)
    return LINKS[name]
