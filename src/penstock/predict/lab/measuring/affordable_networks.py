"""Networks that a device can afford to measure: few seconds and bytes each, so that a short session holds many."""

from dataclasses import dataclass, replace
from functools import cache
from random import Random

import numpy as np

from penstock.predict.capture import Capture, capture
from penstock.predict.kernels.tiling import Array
from penstock.predict.lab.networks.random_networks import CPU_SCALES, RandomNetwork, random_network

_RATES = {"bf16": 3e14, "fp16": 3e14, "amp-bf16": 2e14, "amp-fp16": 2e14, "tf32": 1e14, "fp32": 2e13}
_BYTES_PER_S = 1.5e12
_CPU_RATE, _CPU_BYTES_PER_S = 3e10, 5e9


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringLimits:
    """What one network may cost; a larger one is measured at a smaller batch."""

    seconds: float
    bytes: float


GPU_LIMITS = MeasuringLimits(seconds=0.08, bytes=6e10)
CPU_LIMITS = MeasuringLimits(seconds=0.5, bytes=2e9)
_SMALLEST_BATCH_ON_CPU = 2
_FEW = 2
"""The smallest batch that any network can be captured at: norms over a batch of one may have nothing to average."""
_SMALLEST_SHARE = 0.05


def affordable_network(number: int, device: str) -> tuple[RandomNetwork, Capture]:
    """A random network within the limits. A CPU gets a smaller one rather than a large one at a batch of 1, and limits
    that differ from one to the next, so that three minutes hold long iterations and many short ones."""
    if device == "cuda":
        return affordable(random_network(number, device), device)
    limits = replace(CPU_LIMITS, seconds=CPU_LIMITS.seconds * _SMALLEST_SHARE ** Random(number).random())
    for scale in CPU_SCALES:
        item, seen = affordable(
            random_network(number, device, scale=scale), device, limits, fewest=_SMALLEST_BATCH_ON_CPU
        )
        if _load(seen, item, device, limits).max() < 1:
            break
    return item, seen


def affordable(
    item: RandomNetwork, device: str, limits: MeasuringLimits | None = None, *, fewest: int = 1
) -> tuple[RandomNetwork, Capture]:  # fmt: skip
    """The same network, its batch halved until it is within the limits or at ``fewest``, and its capture.

    What an iteration takes grows with its batch along a line, so that two captures tell how often to halve.
    """
    limits = limits or (GPU_LIMITS if device == "cuda" else CPU_LIMITS)

    @cache
    def at(batch: int) -> Capture:
        return capture(item.hook, batch, item.setup, device=device)

    def load(batch: int) -> Array:
        return _load(at(batch), item, device, limits)

    batch, few = item.batch, max(fewest, _FEW)
    if batch > few and load(few).max() >= 1:
        batch = few
    elif batch > few and load(batch).max() >= 1:
        slope = (load(batch) - load(few)) / (batch - few)
        while batch > few and (load(few) + slope * (batch - few)).max() >= 1:
            batch = max(few, batch // 2)
    while batch > fewest and load(batch).max() >= 1:
        batch = max(fewest, batch // 2)
    return replace(item, batch=batch), at(batch)


def _load(seen: Capture, item: RandomNetwork, device: str, limits: MeasuringLimits) -> Array:
    """Seconds, judged by a roofline, and bytes of an iteration, as shares of what it may take."""
    rate, width = (_RATES[item.setup.precision], _BYTES_PER_S) if device == "cuda" else (_CPU_RATE, _CPU_BYTES_PER_S)
    moved = sum((each.call.read_bytes + each.call.written_bytes) * each.count for each in seen.calls)
    return np.array([(seen.flops / rate + moved / width) / limits.seconds, seen.memory.peak / limits.bytes])
