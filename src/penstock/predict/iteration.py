"""How long one training iteration takes: kernels one after another, or the host that issues them if it is slower.

On a GPU the host runs ahead, so an iteration takes the longer of two sums: the times of its kernels with the small
gaps between them, and what the host needs to issue its operations. On a CPU both are one thread: the sums add.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from statistics import median
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import InputError
from penstock.predict.capture import Capture, TrainingPhase
from penstock.predict.hardware import Bound
from penstock.predict.kernels import KernelModel, Predictions, named

HOST = "host"
ISSUED_KINDS = (*map(str, TrainingPhase), "convolution", "view", "listed", "launched", "module", "iteration")
"""What the host issues: operations of forward and backward pass, those of optimizers on lists, convolutions, whose
kernels are looked up, views, tensors in the lists, kernels of recurrent layers, modules that are called, and the
iteration itself."""
CALLS = "calls"
"""Seconds that all operations take by what each of them was seen to take, where a host was watched that closely."""
_SHARPNESS = 24.0
"""How sharply the slower of device and host wins: the larger it is, the nearer to a plain maximum."""

_NINE_OF_TEN = 1.64
_NOISE, _HOST_NOISE = 0.01, 0.15
"""How far a measured iteration is off itself; hosts take longer at one time than at another."""
_SURPRISE = 0.3
"""A measured iteration that stays farther off than this, as a logarithm, is no noise."""
_FIRST_STEP, _LAST_STEP = 0.1, 1e-4
"""Steps of the search for corrections, as logarithms."""

_COMMON_SPREAD = 0.07
"""Relative error that kernels of one network share, so that it does not average out over them: what covers nine of ten
networks of kinds that nothing was learned from."""

_SHARED_DOUBT = 0.5
"""How much of what kernels that were never timed may be off by they share, being of one network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCost:
    """Seconds the host needs for an iteration.

    Where each operation was timed by name (``by_name``), a share of those times; else by phase, and on top per
    convolution. Beside that per kernel of recurrent layers, per view, per tensor of an optimizer's lists and per
    module. ``wait_s`` is what it costs device and host to meet because a value has to be seen.

    ``doubt`` is half the width of the logarithm's error bar.
    """

    forward_s: float = 2e-5
    backward_s: float = 1.5e-5
    optimizer_s: float = 2e-5
    convolution_s: float = 5e-5
    view_s: float = 2e-6
    listed_s: float = 5e-7
    launched_s: float = 4e-6
    module_s: float = 0.0
    iteration_s: float = 0.0
    wait_s: float = 3e-5
    doubt: float = 0.3
    calls_share: float = 0.0
    """How much of the time an operation takes alone it takes among others, which keep the host's caches warm."""
    by_name: Mapping[str, float] = field(default_factory=dict)
    """Seconds to hand one operation to the device, without the Python around it."""

    def seconds(self, issued: Mapping[str, float]) -> float:
        counted = sum(float(getattr(self, f"{kind}_s")) * issued.get(kind, 0) for kind in ISSUED_KINDS)
        return counted + self.calls_share * issued.get(CALLS, 0.0)

    def calls_s(self, operations: Mapping[str, int]) -> float:
        """Operations that were never timed take as long as the middle one."""
        if not self.by_name:
            return 0.0
        usual = median(self.by_name.values())
        return sum(count * self.by_name.get(name, usual) for name, count in operations.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationTime:
    """Seconds of one iteration; nine of ten lie between ``low`` and ``high``."""

    seconds: float
    low: float
    high: float
    device_s: float
    host_s: float
    device_doubt: float = 0.05
    """How far off the sum over kernels usually is, as a logarithm."""
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
        device, host = float(each_s.sum()), self.host_s(seen)
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
            seconds=total, low=low, high=high, device_s=device, host_s=host, device_doubt=spread / _NINE_OF_TEN,
            by_bound=dict(by_bound), by_family=dict(by_family), by_phase=dict(by_phase),
            beyond=float(each_s[~found.in_range].sum()) / max(device, 1e-12), unseen=_unseen(seen, found, each_s),
        )  # fmt: skip

    def issued(self, seen: Capture) -> dict[str, float]:
        """What the host has to do for an iteration; what single operations take it is known by the device's host."""
        return {**seen.issued, CALLS: self.host.calls_s(seen.operations)}

    def host_s(self, seen: Capture) -> float:
        """What the host needs to issue an iteration."""
        return self.host.seconds(self.issued(seen)) * self.host_factor

    def _together(self, device_s: float, host_s: float) -> float:
        return device_s + host_s if self.serial else float(_slower(device_s, host_s))

    def calibrated(self, seen: Capture, measured_s: float, *more: tuple[Capture, float]) -> "IterationModel":
        """The same model, corrected by measured iterations of the network at whatever batch sizes.

        Either the device took that long, or the host did. How far each of them was off is what fits best together with
        how far they usually are: one iteration corrects the one that was slower, two of different sizes tell them
        apart. What was not the slower one stays as it was, as far as it can have been hidden.
        """
        measured = ((seen, measured_s), *more)
        for _, seconds in measured:
            if not (math.isfinite(seconds) and seconds > 0):
                raise InputError(f"a measured iteration of {seconds} s", "a positive, finite time")
        guesses = [(self.predict(each), seconds) for each, seconds in measured]
        if self.serial:
            ratio = math.exp(np.mean([math.log(seconds / guess.seconds) for guess, seconds in guesses]))
            return replace(self, device_factor=self.device_factor * ratio, host_factor=self.host_factor * ratio)
        device, host = _likeliest(guesses, self.host.doubt / _NINE_OF_TEN)
        found = replace(self, device_factor=self.device_factor * device, host_factor=self.host_factor * host)
        return found._surprised(measured)

    def _surprised(self, measured: Sequence[tuple[Capture, float]]) -> "IterationModel":
        """What is left of a measurement that nobody would have believed is still true of the whole."""
        left = float(np.mean([math.log(seconds / self.predict(each).seconds) for each, seconds in measured]))
        if abs(left) <= _SURPRISE:
            return self
        ratio = math.exp(left)
        return replace(self, device_factor=self.device_factor * ratio, host_factor=self.host_factor * ratio)

    def _spread(self, found: Predictions, each_s: NDArray[np.float64]) -> float:
        """Errors of kernels are mostly their own and average out; a part is common to all of them. Those that were
        never timed are off together, the more so the more of the time they take."""
        shares = each_s / max(float(each_s.sum()), 1e-12)
        widths = np.log(found.high / found.low) / 2
        own, common = float(np.sqrt(np.sum((shares * widths) ** 2))), 0.2 * float(np.sum(shares * widths))
        strange = _SHARED_DOUBT * float(np.sum((shares * widths)[~found.in_range]))
        return math.hypot(own, common, strange, _NINE_OF_TEN * _COMMON_SPREAD)


def _unseen(seen: Capture, found: Predictions, each_s: NDArray[np.float64]) -> dict[str, float]:
    shares: dict[str, float] = defaultdict(float)
    for place in np.flatnonzero(~found.seen):
        shares[named(seen.calls[int(place)].call)] += float(each_s[place]) / max(float(each_s.sum()), 1e-12)
    return dict(sorted(shares.items(), key=lambda pair: -pair[1]))


def _likeliest(guesses: Sequence[tuple[IterationTime, float]], host_doubt: float) -> tuple[float, float]:
    """Factors on device and host: a search downhill from each way to blame one of them for a measured iteration."""

    def off(device: float, host: float) -> float:
        found = (host / host_doubt) ** 2
        for guess, seconds in guesses:
            waited = guess.seconds - float(_slower(guess.device_s, guess.host_s))
            on_device, on_host = guess.device_s * math.exp(device), guess.host_s * math.exp(host)
            taken = float(_slower(on_device, on_host)) + waited
            noise = math.hypot(_NOISE, _HOST_NOISE * _share(on_host, on_device))
            found += (math.log(taken / seconds) / noise) ** 2 + (device / guess.device_doubt) ** 2 / len(guesses)
        return found

    starts = [(0.0, 0.0)]
    for guess, seconds in guesses:
        starts += [(math.log(seconds / guess.device_s), 0.0), (0.0, math.log(seconds / guess.host_s))]
    starts += [(device, host) for device, _ in starts[1::2] for _, host in starts[2::2]]
    device, host = min((_downhill(off, start) for start in starts), key=lambda place: off(*place))
    return math.exp(device), math.exp(host)


def _share(one: float, other: float) -> float:
    """How much of a rounded maximum is the one: 0 where it is hidden, 1 where it hides the other."""
    return 1 / (1 + (other / one) ** _SHARPNESS) if one else 0.0


def _downhill(off: Callable[[float, float], float], place: tuple[float, float]) -> tuple[float, float]:
    """In ever smaller steps along the axes and between them."""
    step, least = _FIRST_STEP, off(*place)
    while step > _LAST_STEP:
        around = [(place[0] + step * x, place[1] + step * y) for x, y in product((-1, 0, 1), repeat=2)]
        best = min(around, key=lambda each: off(*each))
        if off(*best) < least:
            place, least = best, off(*best)
        else:
            step /= 2
    return place


def _slower(device_s: Any, host_s: Any) -> Any:
    """A maximum with a rounded corner, of numbers or of arrays."""
    longer, shorter = np.maximum(device_s, host_s), np.minimum(device_s, host_s)
    return longer * (1 + (shorter / np.maximum(longer, 1e-30)) ** _SHARPNESS) ** (1 / _SHARPNESS)
