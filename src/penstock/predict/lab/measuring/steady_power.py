"""Watts of one kind of work at a time, held long enough for the power to settle."""

import json
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional

from penstock.predict.lab.measuring.session import MeasuringSession
from penstock.tools import NvmlDevice

_SETTLE_S = 0.4
_WATCH_S = 1.2


def power_by_family(session: MeasuringSession) -> list[dict[str, Any]]:
    """Idle, products, convolutions, attention and memory-bound work; written as ``power.json``."""
    gpu = session.gpu
    if gpu is None or gpu.energy_j() is None:
        return []
    time.sleep(1.0)
    found = [_watch(gpu, "idle", "", lambda: time.sleep(0.05))]
    for name, precision, work in _loads():
        found.append(_watch(gpu, name, precision, work))
    (session.folder / "power.json").write_text(json.dumps(found, indent=1))
    return found


def _loads() -> list[tuple[str, str, Callable[[], object]]]:
    low, full = torch.bfloat16, torch.float32
    square = {dtype: torch.randn(8192, 8192, device="cuda", dtype=dtype) for dtype in (low, full)}
    images = torch.randn(64, 256, 56, 56, device="cuda", dtype=low)
    filters = torch.randn(256, 256, 3, 3, device="cuda", dtype=low)
    heads = torch.randn(8, 16, 2048, 128, device="cuda", dtype=low)
    flat = torch.randn(1 << 28, device="cuda", dtype=low)
    rows = torch.randn(1 << 16, 4096, device="cuda", dtype=low)

    def product(dtype: torch.dtype, tf32: bool) -> Callable[[], object]:
        def run() -> object:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            return square[dtype] @ square[dtype]

        return run

    return [
        ("gemm", "bf16", product(low, True)), ("gemm", "tf32", product(full, True)),
        ("gemm", "fp32", product(full, False)), ("conv", "bf16", lambda: functional.conv2d(images, filters, padding=1)),
        ("attention", "bf16", lambda: functional.scaled_dot_product_attention(heads, heads, heads)),
        ("elementwise", "bf16", lambda: flat + flat), ("copy", "bf16", flat.clone),
        ("norm", "bf16", lambda: functional.layer_norm(rows, (4096,))),
        ("softmax", "bf16", lambda: functional.softmax(rows, -1)), ("reduction", "bf16", lambda: rows.sum(0)),
    ]  # fmt: skip


def _watch(gpu: NvmlDevice, family: str, precision: str, work: Callable[[], object]) -> dict[str, Any]:
    _repeat(work, _SETTLE_S)
    before, start = gpu.energy_j() or 0.0, time.perf_counter()
    times = _repeat(work, _WATCH_S)
    seconds, joules = time.perf_counter() - start, (gpu.energy_j() or 0.0) - before
    clock = gpu.clock_mhz()
    return {
        "family": family,
        "precision": precision,
        "watts": joules / seconds,
        "seconds": seconds / times,
        "clock_mhz": clock,
    }


def _repeat(work: Callable[[], object], seconds: float) -> int:
    end, times = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        for _ in range(8):
            work()
        times += 8
        torch.cuda.synchronize()
    return times
