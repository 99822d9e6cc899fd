"""How long one training iteration takes: kernels one after another, or the host that issues them if it is slower.

On a GPU the host runs ahead, so an iteration takes the longer of two sums: the times of its kernels with the small
gaps between them, and what the host needs to issue its operations. On a CPU both are one thread: the sums add.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from penstock.core import InputError
from penstock.predict.capture import Capture, TrainingPhase
from penstock.predict.hardware import Bound
from penstock.predict.kernels import KernelModel, Predictions, named

HOST = "host"
ISSUED_KINDS = (*map(str, TrainingPhase), "convolution", "view", "listed")
"""What the host issues: operations of each phase, convolutions, whose kernels are looked up, views, and tensors in the
lists that optimizers go over."""
_SHARPNESS = 24.0
"""How sharply the slower of device and host wins: the larger it is, the nearer to a plain maximum."""

_DEVICE_DOUBT, _HOST_DOUBT = 0.05, 0.2
"""How far off, as a logarithm, the sums over kernels and over issued operations usually are."""

_FASTER = math.log(0.85)
"""What is found not to have been the slower one was, as far as we know, this much faster."""

_COMMON_SPREAD = 0.04
"""Relative error that kernels of one network share, so that it does not average out over them."""

_SHARED_DOUBT = 0.5
"""How much of what kernels that were never timed may be off by they share, being of one network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCost:
    """Seconds the host needs per operation it issues, by phase, per view, and on top per convolution and per tensor of
    an optimizer's lists; ``wait_s`` is what it costs device and host to meet because a value has to be seen.

    ``doubt`` is half the width of the logarithm's error bar.
    """

    forward_s: float = 2e-5
    backward_s: float = 1.5e-5
    optimizer_s: float = 2e-5
    convolution_s: float = 5e-5
    view_s: float = 2e-6
    listed_s: float = 5e-7
    wait_s: float = 3e-5
    doubt: float = 0.3

    def seconds(self, issued: Mapping[str, int]) -> float:
        return sum(float(getattr(self, f"{kind}_s")) * issued.get(kind, 0) for kind in ISSUED_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationTime:
    """Seconds of one iteration; nine of ten lie between ``low`` and ``high``."""

    seconds: float
    low: float
    high: float
    device_s: float
    host_s: float
    by_bound: Mapping[Bound, float] = field(default_factory=lambda: MappingProxyType({}))
    by_family: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    by_phase: Mapping[TrainingPhase, float] = field(default_factory=lambda: MappingProxyType({}))
    beyond: float = 0.0
    """Share of the kernel time that was predicted outside of what was profiled."""
    unseen: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Operations that were never timed, each with its share of the kernel time."""

    @property
    def dominated_by(self) -> str:
        """What to improve first: the host, or what the kernels wait for."""
        if self.host_s > self.device_s:
            return HOST
        return str(max(self.by_bound, key=lambda bound: self.by_bound[bound]))


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationModel:
    """Kernel times, gaps and host costs of one device, put together."""

    kernels: KernelModel
    host: HostCost = field(default_factory=HostCost)
    gap_s: float = 5e-7
    serial: bool = False
    """Host and device are the same thread, as on a CPU."""
    device_factor: float = 1.0
    host_factor: float = 1.0

    def predict(self, seen: Capture) -> IterationTime:
        """Milliseconds: equal calls are predicted once."""
        found = self.kernels.predict([each.call for each in seen.calls])
        counts = np.array([each.count for each in seen.calls], dtype=float)
        factor = self.device_factor
        each_s = (found.mean_s + self.gap_s) * counts * factor
        waiting = self.host.wait_s * seen.waits
        device, host = float(each_s.sum()), self.host.seconds(seen.issued) * self.host_factor
        total = self._together(device, host) + waiting
        spread = self._spread(found, each_s)
        low, high = (
            self._together(device * math.exp(side * spread), host * math.exp(side * self.host.doubt)) + waiting
            for side in (-1, 1)
        )
        by_bound: dict[Bound, float] = defaultdict(float)
        by_family: dict[str, float] = defaultdict(float)
        by_phase: dict[TrainingPhase, float] = defaultdict(float)
        for each, bound, seconds in zip(seen.calls, found.bounds, map(float, each_s), strict=True):
            by_bound[bound] += seconds
            by_family[each.call.family] += seconds
            by_phase[each.phase] += seconds
        return IterationTime(
            seconds=total, low=low, high=high, device_s=device, host_s=host,
            by_bound=dict(by_bound), by_family=dict(by_family), by_phase=dict(by_phase),
            beyond=float(each_s[~found.in_range].sum()) / max(device, 1e-12), unseen=_unseen(seen, found, each_s),
        )  # fmt: skip

    def _together(self, device_s: float, host_s: float) -> float:
        return device_s + host_s if self.serial else _slower(device_s, host_s)

    def calibrated(self, seen: Capture, measured_s: float) -> "IterationModel":
        """The same model, corrected by one measured iteration of the network at whatever batch size.

        Either the device took that long, or the host did; the likelier of the two is corrected, and the other one as
        far as it cannot have been slower. Kernels are known better than hosts are.
        """
        if not (math.isfinite(measured_s) and measured_s > 0):
            raise InputError(f"a measured iteration of {measured_s} s", "a positive, finite time")
        guess = self.predict(seen)
        if self.serial:
            ratio = measured_s / guess.seconds
            return replace(self, device_factor=self.device_factor * ratio, host_factor=self.host_factor * ratio)
        device, host = math.log(measured_s / guess.device_s), math.log(measured_s / guess.host_s)
        by_device = _density(device, _DEVICE_DOUBT) * _at_most(host, _HOST_DOUBT)
        by_host = _density(host, _HOST_DOUBT) * _at_most(device, _DEVICE_DOUBT)
        if by_device < by_host:
            device = min(0.0, device + _FASTER)
        else:
            host = min(0.0, host + _FASTER)
        return replace(
            self,
            device_factor=self.device_factor * math.exp(device),
            host_factor=self.host_factor * math.exp(host),
        )

    def _spread(self, found: Predictions, each_s: NDArray[np.float64]) -> float:
        """Errors of kernels are mostly their own and average out; a part is common to all of them. Those that were
        never timed are off together, the more so the more of the time they take."""
        shares = each_s / max(float(each_s.sum()), 1e-12)
        widths = np.log(found.high / found.low) / 2
        own, common = float(np.sqrt(np.sum((shares * widths) ** 2))), 0.2 * float(np.sum(shares * widths))
        strange = _SHARED_DOUBT * float(np.sum((shares * widths)[~found.in_range]))
        return math.hypot(own, common, strange, 1.64 * _COMMON_SPREAD)


def _unseen(seen: Capture, found: Predictions, each_s: NDArray[np.float64]) -> dict[str, float]:
    shares: dict[str, float] = defaultdict(float)
    for place in np.flatnonzero(~found.seen):
        shares[named(seen.calls[int(place)].call)] += float(each_s[place]) / max(float(each_s.sum()), 1e-12)
    return dict(sorted(shares.items(), key=lambda pair: -pair[1]))


def _density(off: float, doubt: float) -> float:
    return math.exp(-((off / doubt) ** 2) / 2) / doubt


def _at_most(off: float, doubt: float) -> float:
    return 0.5 * math.erfc(-off / doubt / math.sqrt(2))


def _slower(device_s: float, host_s: float) -> float:
    longer, shorter = max(device_s, host_s), min(device_s, host_s)
    return float(longer * (1 + (shorter / longer) ** _SHARPNESS) ** (1 / _SHARPNESS)) if longer else 0.0
