"""Operations that no family was fitted to, one by one: what little is known about each of them, and how well.

A family has thousands of rows and a forest; a cumulative sum has a dozen. Each operation gets a line: a launch, and
seconds per byte, per arithmetic operation and per serial step; or, where that is nearer to what was measured, a factor
on what its family's physics says. An operation without a line was never seen: it is named, and its bar is wide.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from penstock.predict.hardware import Chip
from penstock.predict.kernels.calls import KernelCall
from penstock.predict.kernels.tiling import Array

UNSEEN_WIDTH = float(np.log(3.0))
"""Half-width for an operation nobody has timed: a factor of three either way."""
POINTWISE_WIDTH = float(np.log(1.6))
"""The same for one that goes element by element: what bounds those is known, which one it is matters less."""
_FARTHER = 0.15
"""What the bar widens by for each octave outside of the sizes that were timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationTime:
    """How long one operation takes; either a line through zero and its launch, or a factor on the physics."""

    launch_s: float = 0.0
    byte_s: float = 0.0
    written_s: float = 0.0
    """On top for every byte that is written: what is gathered or scattered goes by that, not by the table's size."""
    flop_s: float = 0.0
    step_s: float = 0.0
    factor: float = 0.0
    width: float = UNSEEN_WIDTH
    launches: float = 1.0
    """Kernels that the device runs for it: the host has to launch each of them."""
    smallest: float = 0.0
    largest: float = float("inf")
    """Bytes of the calls that were timed."""

    def seconds(self, calls: Sequence[KernelCall], physics: Array) -> Array:
        if self.factor:
            return np.asarray(self.factor * physics)
        line = np.array([self.launch_s, self.byte_s, self.written_s, self.flop_s, self.step_s])
        return np.asarray(terms_of(calls) @ line)

    def carried(self, own: Chip, other: Chip) -> "OperationTime":
        memory, clock = own.bandwidth / other.bandwidth, own.clock_hz / other.clock_hz
        return replace(
            self, byte_s=memory * self.byte_s, written_s=memory * self.written_s, step_s=clock * self.step_s,
            flop_s=own.vector_peak / other.vector_peak * self.flop_s,
            width=float(np.hypot(self.width, POINTWISE_WIDTH)),
        )  # fmt: skip

    def widths(self, calls: Sequence[KernelCall]) -> Array:
        moved = np.array([call.read_bytes + call.written_bytes for call in calls]) + 1.0
        beyond = np.maximum(np.log2(moved / (self.largest + 1)), np.log2((self.smallest + 1) / moved))
        return np.asarray(self.width + _FARTHER * np.maximum(0.0, beyond))

    def covers(self, calls: Sequence[KernelCall]) -> Array:
        moved = np.array([call.read_bytes + call.written_bytes for call in calls])
        return np.asarray((moved >= self.smallest / 4) & (moved <= self.largest * 4))


def terms_of(calls: Sequence[KernelCall]) -> Array:
    """One row per call: a launch, bytes, those written, arithmetic operations, serial steps."""
    rows = [
        (1.0, call.read_bytes + call.written_bytes, call.written_bytes, call.flops, steps_of(call)) for call in calls
    ]
    return np.array(rows, dtype=float).reshape(-1, 5)


def steps_of(call: KernelCall) -> float:
    if call.family == "recurrent":
        return float(call.dims[0] * call.dims[3] * call.dims[4])
    return float(call.dims[1]) if call.family in ("operation", "optimizer") else 0.0


def key_of(call: KernelCall) -> str:
    return f"{call.family}:{call.variant}"


def precise_key_of(call: KernelCall) -> str:
    """Apart by arithmetic: sums into half-precision memory take other ways than those into single precision."""
    return f"{key_of(call)}:{call.precision}"


def named(call: KernelCall) -> str:
    """As a person knows it: ``cumsum``, not how it walks through memory."""
    return (call.variant or call.family).split("/", maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class OperationTable:
    """What is known about single operations, by family and variant."""

    times: Mapping[str, OperationTime] = field(default_factory=dict)

    def of(self, call: KernelCall) -> OperationTime | None:
        """The operation in its arithmetic, else in any; as it walks through memory, else however it does."""
        keys = (precise_key_of(call), key_of(call), f"{call.family}:{named(call)}")
        return next((self.times[key] for key in keys if key in self.times), None)

    def joined(self, other: "OperationTable") -> "OperationTable":
        """Both; where both know an operation, the other one's word counts."""
        return OperationTable({**self.times, **other.times})

    def carried(self, own: Chip, other: Chip) -> "OperationTable":
        """As they would be on another chip: by its bandwidth, its arithmetic and its clock, and less sure."""
        if own.name == other.name:
            return self
        return OperationTable({key: time.carried(own, other) for key, time in self.times.items()})

    def plain(self) -> dict[str, Any]:
        return {
            key: {k: v for k, v in asdict(time).items() if v != getattr(_NOTHING, k)}
            for key, time in self.times.items()
        }

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> "OperationTable":
        return cls({key: OperationTime(**time) for key, time in found.items()})


_NOTHING = OperationTime()


def unseen_width(calls: Iterable[KernelCall]) -> Array:
    return np.array([POINTWISE_WIDTH if call.family in ("elementwise", "copy") else UNSEEN_WIDTH for call in calls])
