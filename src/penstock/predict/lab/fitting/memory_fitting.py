"""What libraries and the allocator add to a network's tensors, from what a device's allocator reported."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from penstock.predict.capture import MemoryUse
from penstock.predict.memory import MemoryModel

_TELLING = 1e9
"""Bytes from which on a network tells by how much an allocator holds more: below, one workspace is several times it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredMemory:
    """What was followed for a network, and what the device's allocator reported."""

    use: MemoryUse
    allocated: int
    reserved: int


def fit_memory(measured: Sequence[MeasuredMemory], context: Sequence[int] = ()) -> MemoryModel:
    """``context`` is what processes held before their networks, where that was seen."""
    usual = MemoryModel()
    if not measured:
        return usual
    workspace = median(max(0.0, float(each.allocated - each.use.peak)) for each in measured)
    model = MemoryModel(workspace=workspace)
    large = [each for each in measured if model.held(each.use) >= _TELLING] or measured
    ratios = [each.reserved / model.held(each.use) for each in large]
    beside = float(median(context)) if context else usual.context
    return MemoryModel(workspace=workspace, fragmentation=max(1.0, *ratios), context=beside)
