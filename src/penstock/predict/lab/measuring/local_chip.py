"""The chip of this machine: its data sheet where there is one, else peaks measured by two simple loads."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from penstock.predict.hardware import DEVICES, Chip, device_named
from penstock.predict.kernels.calls import Precision
from penstock.predict.lab.measuring.training import cpu_clock


def local_chip(name: str, on: str, environment: dict[str, Any]) -> Chip:
    """Data sheet by name; a CPU, or an unknown GPU, with its product and copy rates measured."""
    if name in DEVICES and name != "cpu":
        return device_named(name)
    base = device_named("cpu" if on == "cpu" else "h200")
    units = int(environment.get("multiprocessors") or environment.get("threads") or base.units)
    rate, bandwidth = _product_rate(on), _copy_rate(on)
    peaks = tuple((precision, rate if on == "cpu" else peak) for precision, peak in base.peaks)
    if Precision.FP32 not in dict(peaks):
        peaks = (*peaks, (Precision.FP32, rate))
    return replace(base, name=name, peaks=peaks, bandwidth=bandwidth, units=units)


def _product_rate(on: str, size: int = 1024) -> float:
    """FLOP/s of a square product in single precision."""
    left = torch.randn(size, size, device=on)
    return 2.0 * size**3 / _best(lambda: left @ left, on)


def _copy_rate(on: str, elements: int = 1 << 24) -> float:
    source = torch.randn(elements, device=on)
    return 8.0 * elements / _best(source.clone, on)


def _best(work: Callable[[], object], on: str, times: int = 5) -> float:
    taken, clock = [], time.perf_counter if on == "cuda" else cpu_clock()
    for _ in range(times):
        start = clock()
        work()
        if on == "cuda":
            torch.cuda.synchronize()
        taken.append(clock() - start)
    return min(taken)
