"""A link fitted to measured all-reduces: where the constants of ``penstock.network`` come from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.network import Link
from penstock.tools import nonnegative_least_squares


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceTime:
    """One measured all-reduce."""

    size_bytes: float
    devices: int
    seconds: float

    @property
    def sent_bytes(self) -> float:
        return 2 * (self.devices - 1) / self.devices * self.size_bytes


def fitted_link(name: str, times: Sequence[AllReduceTime], *, shares: bool = False) -> Link:
    """Least squares on the relative error of ring times; ``shares`` fits a bandwidth per number of devices."""
    counts = sorted({time.devices for time in times})
    groups = counts if shares else [0]
    seconds = np.array([time.seconds for time in times])
    sent = np.array([time.sent_bytes for time in times])
    hops = np.array([2.0 * (time.devices - 1) for time in times])
    columns = [np.ones(len(times)), hops, np.sqrt(sent)]
    columns += [sent * np.array([group in (0, time.devices) for time in times]) for group in groups]
    matrix = np.column_stack(columns) / seconds[:, None]
    scale = matrix.max(axis=0)
    found = nonnegative_least_squares(matrix / scale, np.ones(len(times))) / scale
    start, hop, ramp, *per_byte = (float(value) for value in found)
    best = min(per_byte)
    by_count = {count: best / each for count, each in zip(counts, per_byte, strict=True)} if shares else {}
    return Link(name=name, start_s=start, hop_s=hop, ramp_s=ramp, bandwidth=1 / best, share_by_devices=by_count)
