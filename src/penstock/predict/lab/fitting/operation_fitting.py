"""A line for every operation that was timed and that no family was fitted to."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.predict.hardware import Chip
from penstock.predict.kernels import KernelCall, KernelModel, OperationTable, OperationTime
from penstock.predict.kernels.operations import UNSEEN_WIDTH, key_of, precise_key_of, terms_of
from penstock.predict.kernels.tiling import Array

_NINE_OF_TEN = 1.64
_NARROWEST = 0.12
_LINES = ("operation", "recurrent")
"""Families without physics of their own."""
_FEWEST = 3
"""Sizes from which on an operation has a line of its own in one arithmetic."""
_FREEDOM, _STEPS = 4.0, 60
"""How far, as a logarithm, a coefficient may be from what the data sheet lets expect; steps of the search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCall:
    """A call, how long it took, and how many kernels the device ran for it."""

    call: KernelCall
    seconds: float
    launches: float = 1.0


def fit_operations(rows: Iterable[TimedCall], kernels: KernelModel) -> OperationTable:
    """From rows of any operations; those that a family knows are left to it."""
    groups: dict[str, dict[KernelCall, list[TimedCall]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.seconds > 0 and not kernels.fitted(row.call):
            for key in (key_of(row.call), precise_key_of(row.call)):
                groups[key][row.call].append(row)
    return OperationTable(
        {
            key: _fitted(_merged(group), kernels)
            for key, group in sorted(groups.items())
            if len(group) >= _FEWEST or key.count(":") == 1
        }
    )


def _merged(group: dict[KernelCall, list[TimedCall]]) -> list[TimedCall]:
    """Every size once."""
    return [
        replace(
            rows[0], seconds=float(np.median([row.seconds for row in rows])),
            launches=float(np.mean([row.launches for row in rows])),
        )
        for rows in group.values()
    ]  # fmt: skip


def _fitted(rows: Sequence[TimedCall], kernels: KernelModel) -> OperationTime:
    calls, seconds = [row.call for row in rows], np.array([row.seconds for row in rows])
    physics = replace(kernels, operations=OperationTable()).predict(calls).mean_s
    if calls[0].family in _LINES:
        best, used = _line(calls, seconds, kernels.chip), 2
    else:
        best, used = OperationTime(factor=float(np.exp(np.median(np.log(seconds / physics))))), 1
    moved = [call.read_bytes + call.written_bytes for call in calls]
    return replace(
        best, width=max(_NARROWEST, min(UNSEEN_WIDTH, _NINE_OF_TEN * _off(best, used, calls, seconds, physics))),
        smallest=min(moved), largest=max(moved), launches=float(np.median([row.launches for row in rows])),
    )  # fmt: skip


def _line(calls: Sequence[KernelCall], seconds: Array, chip: Chip) -> OperationTime:
    """Coefficients by the squares of logarithms, so that small calls count as much as large ones, held near what the
    device's data sheet lets expect where there are few (Levenberg and Marquardt's steps, all of them positive)."""
    terms = terms_of(calls)
    expected = np.log([2e-6, 1 / chip.bandwidth, 0.2 / chip.bandwidth, 1e-3 / chip.vector_peak, 1e-12])
    found, damping = expected.copy(), 1.0
    best = _distance(found, terms, seconds, expected)
    for _ in range(_STEPS):
        parts = terms * np.exp(found)
        whole = parts.sum(axis=1)
        slopes = np.vstack([parts / whole[:, None], np.eye(len(found)) / _FREEDOM])
        rest = np.concatenate([np.log(seconds / whole), (expected - found) / _FREEDOM])
        step = np.linalg.solve(slopes.T @ slopes + damping * np.eye(len(found)), slopes.T @ rest)
        distance = _distance(found + step, terms, seconds, expected)
        if distance < best:
            found, best, damping = found + step, distance, damping / 3
        else:
            damping *= 4
    launch, byte, written, flop, serial = map(float, np.exp(found))
    return OperationTime(launch_s=launch, byte_s=byte, written_s=written, flop_s=flop, step_s=serial)


def _distance(found: Array, terms: Array, seconds: Array, expected: Array) -> float:
    off = np.log(seconds / (terms * np.exp(found)).sum(axis=1))
    return float(np.sum(off**2) + np.sum(((found - expected) / _FREEDOM) ** 2))


def _off(form: OperationTime, used: int, calls: Sequence[KernelCall], seconds: Array, physics: Array) -> float:
    """Root mean square of the logarithm, as large as it would be had the form not been fitted to these rows.

    One row says nothing about how far others are off: a guess stands in, which weighs as much as two rows.
    """
    guess, weight = 0.35, 2.0
    logs = np.log(np.maximum(form.seconds(calls, physics), 1e-12) / seconds)
    freedom = max(0.0, len(seconds) - used)
    return float(np.sqrt((np.sum(logs**2) + weight * guess**2) / (freedom + weight)))
