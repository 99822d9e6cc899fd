"""Kernels of a made-up device whose law of time is known, so that a fit can be held against the truth."""

import numpy as np

from penstock.predict.hardware import Chip, Precision, device_named
from penstock.predict.kernels import KernelCall
from penstock.predict.lab.fitting.family_fitting import MeasuredCall

CHIP = device_named("a100-80gb")


def gemm(m: int, n: int, k: int, batch: int = 1, precision: Precision = Precision.BF16) -> KernelCall:
    size = precision.bytes
    return KernelCall(
        family="gemm",
        dims=(batch, m, n, k),
        precision=precision,
        flops=2.0 * batch * m * n * k,
        read_bytes=float(size * batch * (m * k + k * n)),
        written_bytes=float(size * batch * m * n),
        variant="nn",
    )


def add(elements: int, variant: str = "add") -> KernelCall:
    return KernelCall(
        family="elementwise",
        dims=(elements, 2, 1),
        precision=Precision.FP32,
        flops=float(elements),
        read_bytes=8.0 * elements,
        written_bytes=4.0 * elements,
        variant=variant,
    )


def conv(channels: int, side: int, *, groups: int = 1, kernel: int = 3, batch: int = 8) -> KernelCall:
    outputs = batch * channels * side * side
    return KernelCall(
        family="conv",
        dims=(batch, channels, channels, side, side, kernel, kernel, 1, kernel // 2, groups),
        precision=Precision.BF16,
        flops=2.0 * outputs * channels // groups * kernel**2,
        read_bytes=2.0 * (outputs + channels * channels // groups * kernel**2),
        written_bytes=2.0 * outputs,
    )


def true_seconds(call: KernelCall, chip: Chip = CHIP) -> float:
    """Half the peak, four fifths of the bandwidth, five microseconds to start; soft-plus variants take longer."""
    slower = 1.4 if call.variant == "softplus" else 1.0
    compute = call.flops / (0.5 * chip.peak(call.precision))
    memory = (call.read_bytes + call.written_bytes) / (0.8 * chip.bandwidth)
    return slower * max(compute, memory) + 5e-6


def some_products(count: int, seed: int, *, largest: float = 13.0) -> list[KernelCall]:
    rng = np.random.default_rng(seed)
    sides = (2 ** rng.uniform(6, largest, (count, 3))).astype(int)
    return [gemm(int(m), int(n), int(k)) for m, n, k in sides]


def some_additions(count: int, seed: int) -> list[KernelCall]:
    rng = np.random.default_rng(seed)
    sizes = (2 ** rng.uniform(12, 28, count)).astype(int)
    return [
        add(int(size), "softplus" if odd else "add") for size, odd in zip(sizes, rng.random(count) < 0.5, strict=True)
    ]


def measured(calls: list[KernelCall], *, noise: float = 0.02, seed: int = 0) -> list[MeasuredCall]:
    factors = np.exp(np.random.default_rng(seed).normal(0, noise, len(calls)))
    return [MeasuredCall(call=call, seconds=true_seconds(call) * f) for call, f in zip(calls, factors, strict=True)]
