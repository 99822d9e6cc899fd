"""From the events of a profile to a small table: where the time of a step went.

Events overlap: an operator holds others, kernels run beside the host, gradients travel while others are computed. Every
moment of the profiled steps is given to one part alone, by the first of these that was going on:

* on a GPU: kernels, communication (so only what computing does not hide), input; what is left is the host's: Python,
  launches, waiting for something that no event names;
* on a CPU: input, operators, communication, host: there the processor that fetches samples is the one that computes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.core import OperatorTime

WINDOW, INPUT = "penstock.steps", "penstock.input"
"""Marks of ours in a profile: the steps that are looked at, and the fetching of samples."""
MOST_SHOWN = 12
_LONGEST_NAME = 120
_EXCHANGES = ("nccl", "gloo", "hccl", "c10d::", "record_param_comms")
_OPERATORS = ("aten::", "autograd::engine::evaluate_function", "Optimizer.", "torch::")
_NS = 1e-9

Intervals = NDArray[np.int64]
"""Beginnings and ends in rows, (n, 2), in order and apart."""


@dataclass(frozen=True, slots=True)
class ProfileEvent:
    """One event of a profile; ``thread`` is a stream where it is ``on_device``."""

    name: str
    start_ns: int
    end_ns: int
    thread: int
    on_device: bool

    @property
    def is_exchange(self) -> bool:
        low = self.name.lower()
        return any(mark in low for mark in _EXCHANGES)

    @property
    def is_operator(self) -> bool:
        return self.name.startswith(_OPERATORS) and not self.is_exchange


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeParts:
    """Seconds of all profiled steps together."""

    whole: float
    input: float
    kernels: float
    communication: float
    operators: tuple[OperatorTime, ...]

    @property
    def host(self) -> float:
        return max(self.whole - self.input - self.kernels - self.communication, 0.0)


def time_parts(events: Sequence[ProfileEvent], steps: int) -> TimeParts:
    """The parts of the window that :data:`WINDOW` marks, and its operators for each of ``steps``; O(n log n)."""
    window = _union([(one.start_ns, one.end_ns) for one in events if one.name == WINDOW and not one.on_device])
    device = [one for one in events if one.on_device and not one.name.startswith("penstock.")]
    host = [one for one in events if not one.on_device]
    work = [one for one in device if not one.is_exchange] if device else outermost(host)
    exchanges = [one for one in (device or host) if one.is_exchange]
    fetches = _union([(one.start_ns, one.end_ns) for one in host if one.name == INPUT])
    kernels, travels = _spans(work), _spans(exchanges)
    order = (kernels, travels, fetches) if device else (fetches, kernels, travels)
    spent, covered = [], np.zeros((0, 2), dtype=np.int64)
    for part in order:
        grown = _union([*covered, *_within(part, window)])
        spent.append((_length(grown) - _length(covered)) * _NS)
        covered = grown
    by_order = dict(zip(("kernels", "communication", "input") if device else ("input", "kernels", "communication"),
                        spent, strict=True))  # fmt: skip
    return TimeParts(whole=_length(window) * _NS, operators=_largest(work, steps), **by_order)


def outermost(events: Iterable[ProfileEvent]) -> list[ProfileEvent]:
    """Operators that no other operator of their thread holds."""
    found: list[ProfileEvent] = []
    until: dict[int, int] = {}
    for one in sorted((one for one in events if one.is_operator), key=lambda one: (one.start_ns, -one.end_ns)):
        if one.start_ns >= until.get(one.thread, 0):
            found.append(one)
            until[one.thread] = one.end_ns
    return found


def _largest(work: Iterable[ProfileEvent], steps: int) -> tuple[OperatorTime, ...]:
    spent: dict[str, tuple[int, int]] = {}
    for one in work:
        seconds, calls = spent.get(one.name, (0, 0))
        spent[one.name] = (seconds + one.end_ns - one.start_ns, calls + 1)
    ranked = sorted(spent.items(), key=lambda item: (-item[1][0], item[0]))[:MOST_SHOWN]
    return tuple(
        OperatorTime(name=_short(name), seconds=total * _NS / steps, calls=calls / steps)
        for name, (total, calls) in ranked
    )


def _short(name: str) -> str:
    plain = name.removeprefix("autograd::engine::evaluate_function: ")
    return plain if len(plain) <= _LONGEST_NAME else f"{plain[: _LONGEST_NAME - 1]}…"


def _spans(events: Iterable[ProfileEvent]) -> Intervals:
    return _union([(one.start_ns, one.end_ns) for one in events])


def _union(spans: Sequence[tuple[int, int] | NDArray[np.int64]]) -> Intervals:
    """The same time in intervals that do not touch."""
    if not len(spans):
        return np.zeros((0, 2), dtype=np.int64)
    found = np.array(spans, dtype=np.int64)
    found = found[np.argsort(found[:, 0], kind="stable")]
    ends = np.maximum.accumulate(found[:, 1])
    begins = np.flatnonzero(np.concatenate(([True], found[1:, 0] > ends[:-1])))
    return np.stack((found[begins, 0], np.append(ends[begins[1:] - 1], ends[-1])), axis=1)


def _within(spans: Intervals, window: Intervals) -> Intervals:
    """What of some intervals lies in a window, cut at its ends."""
    parts = [np.clip(spans, low, high) for low, high in window]
    cut = np.concatenate(parts) if parts else spans[:0]
    return cut[cut[:, 1] > cut[:, 0]]


def _length(spans: Intervals) -> int:
    return int((spans[:, 1] - spans[:, 0]).sum())
