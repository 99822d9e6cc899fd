"""A line for every operation that was timed and that no family was fitted to."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.predict.hardware import Chip
from penstock.predict.kernels import KernelCall, KernelModel, OperationTable, OperationTime
from penstock.predict.kernels.operations import UNSEEN_WIDTH, key_of, precise_key_of, terms_of
from penstock.predict.kernels.tiling import Array
from penstock.predict.lab.fitting.positive_fitting import fit_positive

_NINE_OF_TEN = 1.64
_NARROWEST = 0.12
LINES = ("operation", "recurrent")
"""Families without physics of their own."""
_FEWEST = 3
"""Sizes from which on an operation has a line of its own in one arithmetic."""
_FREEDOM = np.array([2.0, 2.0, 2.0, 8.0, 8.0])
"""How far, as a logarithm, a coefficient may be from what is expected: launches and bytes are as everywhere, what an
element or a serial step takes is the operation's own."""


Size = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCall:
    """A call, how long it took, and how many kernels the device ran for it."""

    call: KernelCall
    seconds: float
    launches: float = 1.0


def fit_operations(rows: Iterable[TimedCall], kernels: KernelModel) -> OperationTable:
    """From rows of any operations; those that a family knows are left to it."""
    groups: dict[str, dict[Size, list[TimedCall]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.seconds > 0 and not kernels.fitted(row.call):
            for key in (key_of(row.call), precise_key_of(row.call)):
                groups[key][_size(row.call)].append(row)
    return OperationTable(
        {
            key: _fitted(_merged(group), kernels)
            for key, group in sorted(groups.items())
            if len(group) >= _FEWEST or key.count(":") == 1
        }
    )


def _size(call: KernelCall) -> Size:
    """What a line goes by, in quarters of a doubling: a network asks for nearly the same many times."""
    return tuple(np.round(4 * np.log2(terms_of([call])[0] + 1)).astype(int).tolist())


def _merged(group: dict[Size, list[TimedCall]]) -> list[TimedCall]:
    """Every size once: the row in the middle of those that took as long."""
    return [
        replace(sorted(rows, key=lambda row: row.seconds)[len(rows) // 2],
                launches=float(np.mean([row.launches for row in rows])))
        for rows in group.values()
    ]  # fmt: skip


def _fitted(rows: Sequence[TimedCall], kernels: KernelModel) -> OperationTime:
    calls, seconds = [row.call for row in rows], np.array([row.seconds for row in rows])
    physics = replace(kernels, operations=OperationTable()).predict(calls).mean_s
    if calls[0].family in LINES:
        best, used = _line(calls, seconds, kernels.chip), 2
    else:
        best, used = OperationTime(factor=float(np.exp(np.median(np.log(seconds / physics))))), 1
    moved = [call.read_bytes + call.written_bytes for call in calls]
    return replace(
        best, width=max(_NARROWEST, min(UNSEEN_WIDTH, _NINE_OF_TEN * _off(best, used, calls, seconds, physics))),
        smallest=min(moved), largest=max(moved), launches=float(np.median([row.launches for row in rows])),
    )  # fmt: skip


def _line(calls: Sequence[KernelCall], seconds: Array, chip: Chip) -> OperationTime:
    """Coefficients held near what the device's data sheet lets expect where there are few rows."""
    step = 5e-6 if calls[0].family == "recurrent" else 1e-10
    expected = np.array([2e-6, 1 / chip.bandwidth, 0.2 / chip.bandwidth, 1 / chip.vector_peak, step])
    launch, byte, written, flop, serial = map(float, fit_positive(terms_of(calls), seconds, expected, _FREEDOM))
    return OperationTime(launch_s=launch, byte_s=byte, written_s=written, flop_s=flop, step_s=serial)


def _off(form: OperationTime, used: int, calls: Sequence[KernelCall], seconds: Array, physics: Array) -> float:
    """Root mean square of the logarithm, as large as it would be had the form not been fitted to these rows.

    One row says nothing about how far others are off: a guess stands in, which weighs as much as two rows.
    """
    guess, weight = 0.35, 2.0
    logs = np.log(np.maximum(form.seconds(calls, physics), 1e-12) / seconds)
    freedom = max(0.0, len(seconds) - used)
    return float(np.sqrt((np.sum(logs**2) + weight * guess**2) / (freedom + weight)))
