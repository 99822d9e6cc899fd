"""The time model of one family: physics, a learned correction on top, and how far both together may be off."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.predict.hardware import Bound, Chip, Precision
from penstock.predict.kernels.calls import KernelCall
from penstock.predict.kernels.error_bars import ErrorBars
from penstock.predict.kernels.features import features
from penstock.predict.kernels.layer_memory import LayerMemory
from penstock.predict.kernels.physics import BoundTimes, Physics, Rates
from penstock.predict.kernels.shapes import physics_key
from penstock.predict.kernels.tiling import Array, TiledWork, work_of
from penstock.predict.kernels.trees import Forest

UNPROFILED_WIDTH = float(np.log(1.6))
"""Half-width of a kernel on a device nobody measured. Iterations come to somewhat more than half of it: such
kernels are off together. Nine of ten iterations that others measured then lie inside (``python -m bench.devices``)."""
_OF_ONE_LIBRARY = ("conv", "conv_dgrad", "conv_wgrad", "elementwise")
"""In fp32, what these reach on one device says little about others: newer libraries have fewer ways to convolve."""
_HALF_FULL = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyPredictions:
    """Columns over calls; ``log_width`` is half the width of the logarithm's error bar."""

    seconds: Array
    mean_s: Array
    log_width: Array
    bounds: npt.NDArray[np.object_]
    in_range: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyModel:
    """Without forests it is physics alone, with coefficients from no measurement if it was never fitted."""

    family: str
    physics: Mapping[str, Physics] = field(default_factory=dict)
    """Coefficients by arithmetic and layout, see :func:`physics_key`."""
    fallback: Physics = field(default_factory=Physics)
    variants: Mapping[str, float] = field(default_factory=dict)
    usual: tuple[Forest, ...] = ()
    """What a kernel usually takes: their mean."""
    mean: Forest | None = None
    """What kernels take on average, for sums: some take far longer than others like them."""
    layer_memory: LayerMemory | None = None
    error_bars: ErrorBars | None = None

    def predict(self, calls: Sequence[KernelCall], chip: Chip) -> FamilyPredictions:
        work = work_of(self.family, calls)
        rates = rates_of(calls, chip)
        terms = self.terms(calls, work, rates)
        distance = self.error_bars.distance(work.shape) if self.error_bars else np.zeros(len(work))
        learned = self.corrections(calls, work, rates, terms) + self._remembered(calls)
        seconds, mean_s = terms.total * np.exp(learned.T)
        return FamilyPredictions(
            seconds=seconds,
            mean_s=mean_s,
            log_width=self.error_bars.width(distance) if self.error_bars else np.full(len(work), UNPROFILED_WIDTH),
            bounds=bounds_of(terms),
            in_range=self._covers(calls, work, distance),
        )

    def carried_over(self) -> "FamilyModel":
        """What holds on other devices too: which shares of a chip's rates kernels reach. Trees and layer memories know
        the library of one chip."""
        default = self.family in _OF_ONE_LIBRARY
        shares = {
            key: Physics() if default and key.startswith(Precision.FP32) else physics
            for key, physics in self.physics.items()
        }
        return FamilyModel(family=self.family, physics=shares, fallback=self.fallback, variants=self.variants)

    def terms(self, calls: Sequence[KernelCall], work: TiledWork, rates: Rates) -> BoundTimes:
        """The analytical part, each precision and layout with its own coefficients."""
        keys = np.array([physics_key(call) for call in calls])
        parts = {
            str(key): self.physics.get(str(key), self.fallback).terms(work.rows(keys == key), rates.rows(keys == key))
            for key in np.unique(keys)
        }
        return BoundTimes.joined(keys, parts)

    def corrections(self, calls: Sequence[KernelCall], work: TiledWork, rates: Rates, terms: BoundTimes) -> Array:
        """log(time / physics), a row for every call: of the usual time and of the mean."""
        if self.mean is None:
            return np.zeros((len(calls), 2))
        rows = features(calls, work, rates, terms, self.variants)
        usual = np.mean([forest.predict(rows) for forest in self.usual], axis=0)
        return np.column_stack([usual, self.mean.predict(rows)])

    def _remembered(self, calls: Sequence[KernelCall]) -> Array:
        return self.layer_memory.corrections(calls) if self.layer_memory else np.zeros((len(calls), 2))

    def _covers(self, calls: Sequence[KernelCall], work: TiledWork, distance: Array) -> npt.NDArray[np.bool_]:
        if self.error_bars is None:
            return np.zeros(len(work), dtype=np.bool_)
        known = np.array([physics_key(call) in self.physics for call in calls])
        return np.asarray(self.error_bars.covers(work.shape, distance) & known)


def rates_of(calls: Sequence[KernelCall], chip: Chip) -> Rates:
    """What a device offers each call."""

    def column(value: float) -> Array:
        return np.full(len(calls), value)

    return Rates(
        flops=np.array([chip.peak(call.precision) for call in calls], dtype=float),
        vector_flops=column(chip.vector_peak),
        power_bound=column(chip.power_bound),
        bandwidth=column(chip.bandwidth),
        l2_bandwidth=column(chip.l2_bandwidth),
        l1_bytes=column(chip.l1_bytes),
        l2_bytes=column(chip.l2_bytes),
        units=column(float(chip.units)),
        clock_hz=column(chip.clock_hz),
    )


def bounds_of(terms: BoundTimes) -> npt.NDArray[np.object_]:
    """The largest term names the bound; arithmetic in waves that leave most units idle is called what it is."""
    order = (Bound.COMPUTE, Bound.DRAM, Bound.L2, Bound.LATENCY)
    largest = np.argmax(np.column_stack([terms.compute, terms.dram, terms.l2, terms.latency]), axis=1)
    names = np.array(order, dtype=object)[largest]
    fill = (terms.waves - 1 + terms.tail) / terms.waves
    names[(largest == 0) & (fill < _HALF_FULL)] = Bound.UNDERUSED
    return np.asarray(names, dtype=object)
