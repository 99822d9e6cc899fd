"""A kind of device in the few numbers that bound how fast a kernel can run and how much power that takes."""

from dataclasses import dataclass

from penstock.core import InputError
from penstock.predict.hardware.precision import Precision

_L2_BYTES_PER_CLOCK = 64.0
"""What one multiprocessor draws from the shared cache per clock on GPUs since Volta; a scale, fits correct it."""

_L1_BYTES = ((9.0, 256e3), (8.1, 128e3), (8.0, 192e3), (7.5, 96e3), (7.0, 128e3), (0.0, 24e3))
"""By compute capability from which on (NVIDIA's tuning guides); before Volta, most loads pass it by."""

_JOULES_PER_FLOP_16NM = 14e-12
_PROCESS_EXPONENT = 0.7
"""Energy per operation falls with the feature size: P100 (16 nm) to H100 (4 nm), from 28 to 10 W per TFLOP/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """Peaks in base units: FLOP/s, bytes, bytes/s, hertz, watts.

    ``peaks`` holds the dense rate of each precision the chip has units for. A precision that is missing runs at the
    fp32 rate, as libraries then compute: TF32 is a no-op before Ampere, bf16 is widened.
    """

    name: str
    peaks: tuple[tuple[Precision, float], ...]
    bandwidth: float
    l2_bytes: float
    units: int
    """Multiprocessors, or cores of a CPU: how many blocks of work run side by side."""
    clock_hz: float
    memory_bytes: float
    link: str
    """The kind of link to its neighbours in the same machine, as :mod:`penstock.network` names it."""
    tdp_w: float
    idle_w: float
    generation: float = 0.0
    """Compute capability where there is one: chips of like generation run like kernels."""
    process_nm: float = 7.0
    source: str = ""

    def __post_init__(self) -> None:
        if Precision.FP32 not in dict(self.peaks):
            raise InputError(f"device {self.name!r} has no fp32 peak", "at least the fp32 rate in FLOP/s")
        numbers = {
            "bandwidth": self.bandwidth, "l2_bytes": self.l2_bytes, "units": self.units, "clock_hz": self.clock_hz,
            "memory_bytes": self.memory_bytes, "tdp_w": self.tdp_w, **{str(p): rate for p, rate in self.peaks},
        }  # fmt: skip
        for what, value in numbers.items():
            if not value > 0:
                raise InputError(f"device {self.name!r} has {what} {value}", "a positive number in base units")

    def peak(self, precision: Precision) -> float:
        """FLOP/s of dense matrix products in a precision."""
        rates = dict(self.peaks)
        return rates.get(precision, rates[Precision.FP32])

    @property
    def vector_peak(self) -> float:
        """FLOP/s outside matrix units: what element-wise and row-wise kernels compute with."""
        return dict(self.peaks)[Precision.FP32]

    @property
    def power_bound(self) -> float:
        """FLOP/s of fp32 arithmetic the power budget feeds, were one operation to cost what it does on a 16 nm chip.

        Low-power cards (T4, L4) cannot hold their peak: the clock gives way first. A scale, which fits correct.
        """
        return float(self.tdp_w / (_JOULES_PER_FLOP_16NM * (self.process_nm / 16.0) ** _PROCESS_EXPONENT))

    @property
    def l1_bytes(self) -> float:
        """What one multiprocessor caches for itself of what its blocks load, by compute capability."""
        return next(size for generation, size in _L1_BYTES if self.generation >= generation)

    @property
    def l2_bandwidth(self) -> float:
        return self.units * self.clock_hz * _L2_BYTES_PER_CLOCK
