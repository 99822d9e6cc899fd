"""The analytical time of a kernel: four ways to be slow, combined.

After SEER (Liu, Wang, Bao, PACT'21): blocks run in whole waves when arithmetic binds, and share bandwidth when memory
binds. SEER labels a kernel with one class and uses that class's formula; we take a p-norm of all of them, which has no
jumps between classes and still says which one rules:

    compute    waves x (block operations / one multiprocessor's rate + start of a block + its waits for memory)
    DRAM       bytes / bandwidth
    L2         bytes that blocks draw from the shared cache / its bandwidth
    latency    launch + the serial steps of the longest block

The coefficients are few, positive and dimensionless (efficiencies and latencies in clocks), fitted per family and
precision on the logarithm of the time, so that a kernel of a microsecond counts as much as one of a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np
import numpy.typing as npt

from penstock.predict.kernels.tiling import CLASSES, DIRECT, Array, TiledWork

_STEEPNESS = 4.0
_TILE_PRIOR = (0.75, 0.7, 0.6, 0.45, 0.35, 0.2, 0.6, 0.3)
_LAUNCH_CLOCKS = 4000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a device offers each call: arrays over calls."""

    flops: Array
    vector_flops: Array
    power_bound: Array
    bandwidth: Array
    l2_bandwidth: Array
    l1_bytes: Array
    l2_bytes: Array
    units: Array
    clock_hz: Array

    def rows(self, index: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> "Rates":
        return Rates(**{each.name: getattr(self, each.name)[index] for each in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundTimes:
    """Seconds each bound would take alone, for the chosen candidate of every call."""

    compute: Array
    dram: Array
    l2: Array
    latency: Array
    waves: Array
    tail: Array
    """How full the last wave is."""
    candidate: npt.NDArray[np.int64]
    total: Array

    @classmethod
    def joined(cls, labels: npt.NDArray[np.str_], parts: Mapping[str, "BoundTimes"]) -> "BoundTimes":
        """Put the terms of groups of calls back in the order of their labels."""
        columns = {}
        for each in fields(cls):
            first = getattr(next(iter(parts.values())), each.name)
            columns[each.name] = np.empty(len(labels), dtype=first.dtype)
            for label, part in parts.items():
                columns[each.name][labels == label] = getattr(part, each.name)
        return cls(**columns)


@dataclass(frozen=True, slots=True)
class Physics:
    """Coefficients as logarithms: tile efficiencies, DRAM and L2 efficiency, launch, step and block clocks."""

    log_coefficients: Array = field(
        default_factory=lambda: np.log([*_TILE_PRIOR, 0.85, 0.6, _LAUNCH_CLOCKS, 40.0, 600.0, 1.0, 1.0, 0.3, 0.3])
    )

    def terms(self, work: TiledWork, rates: Rates) -> BoundTimes:
        tile, (dram_share, l2_share, launch, step, block, power, cache, staging, skew) = _unpack(self.log_coefficients)
        fed = np.where(work.misaligned, skew, 1.0)[:, None]
        per_unit = _rate(rates, power, work.tile_class) * tile[work.tile_class] * fed / rates.units[:, None]
        clock = rates.clock_hz[:, None]
        waves = np.ceil(work.blocks / rates.units[:, None])
        compute = waves * (work.block_flops / per_unit + (block + step * work.waits[:, None]) / clock)
        drawn = work.blocks * work.block_bytes + (work.again_bytes * _missed(work.held_bytes, rates.l1_bytes))[:, None]
        evicted = _missed(rates.units * work.held_bytes, cache * rates.l2_bytes)
        moved = work.dram_bytes + work.again_bytes * evicted
        dram = (moved[:, None] + work.extra_bytes) / (rates.bandwidth * dram_share)[:, None]
        l2 = drawn / (rates.l2_bandwidth * l2_share)[:, None] / fed
        latency = (launch + step * work.steps) / clock
        staged = staging * work.staged_bytes / rates.bandwidth
        total = _norm(compute, dram, l2) + latency + staged[:, None]
        chosen = np.argmin(np.where(work.allowed, total, np.inf), axis=1)
        return _pick(chosen, compute, dram, l2, latency, waves, work.blocks / rates.units[:, None], total)


def _unpack(logs: Array) -> tuple[Array, Array]:
    """Efficiencies by tile class, and the other coefficients."""
    values = np.exp(logs)
    return values[:CLASSES], values[CLASSES:]


def _rate(rates: Rates, power: float, tile_class: npt.NDArray[np.int64]) -> Array:
    """FLOP/s by call and candidate, bent down where the power budget does not carry the vector units' peak."""
    bend = (1 + (rates.vector_flops / (power * rates.power_bound)) ** _STEEPNESS) ** (-1 / _STEEPNESS)
    peak = np.where(tile_class == DIRECT, rates.vector_flops[:, None], rates.flops[:, None])
    return np.asarray(peak * bend[:, None])


def _missed(held: Array, size: Array) -> Array:
    """Which share of repeated reads finds its data evicted: what the blocks in flight hold against a cache's size."""
    return np.asarray(held**2 / (held**2 + size**2))


def _norm(*terms: Array) -> Array:
    return np.asarray(sum(term**_STEEPNESS for term in terms) ** (1 / _STEEPNESS))


def _pick(
    chosen: npt.NDArray[np.int64], compute: Array, dram: Array, l2: Array, latency: Array, waves: Array, fill: Array,
    total: Array,
) -> BoundTimes:  # fmt: skip
    rows = np.arange(len(chosen))
    filled = fill[rows, chosen]
    return BoundTimes(
        compute=compute[rows, chosen],
        dram=dram[rows, chosen],
        l2=l2[rows, chosen],
        latency=latency[rows, chosen],
        waves=waves[rows, chosen],
        tail=filled - np.ceil(filled) + 1,
        candidate=chosen,
        total=total[rows, chosen],
    )
