"""How fast products, memory and disk are, held against what the device's profile says."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from penstock.core import format_bytes
from penstock.diagnose.preflight.expectations import Expectations, Range
from penstock.diagnose.preflight.report import Check, Status

_DISK_BYTES = 256 << 20
_BLOCK = 4 << 20


def device_speeds(device: str, expected: Expectations, *, seconds: float) -> Iterator[Check]:
    """Products in every precision the device has, and a copy within its memory."""
    import torch

    for precision, dtype in _precisions(torch, device):
        rate = _flops(torch, device, dtype, seconds)
        known = expected.flops.get(precision)
        yield judged(f"matmul {precision}", rate, known, lambda value: f"{value / 1e12:.3g} TFLOP/s")
    if device != "cpu":
        yield from _tf32(torch, device, expected, seconds)
    yield judged("memory", _copied(torch, device, seconds), expected.bytes_s, lambda value: f"{value / 1e9:.3g} GB/s")


def disk_speed(folder: Path, least: float | None, *, size: int = _DISK_BYTES) -> Iterator[Check]:
    """Write and read back through the disk, with what was written forced out of the cache."""
    known = None if least is None else Range(good=least, bad=least / 2, source="what was asked for")
    block = os.urandom(_BLOCK)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            started = time.perf_counter()
            for _ in range(size // _BLOCK):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            rate = size / (time.perf_counter() - started)
            file.seek(0)
            whole = all(file.read(_BLOCK) == block for _ in range(size // _BLOCK))
    except PermissionError:
        yield Check(name="disk", status=Status.WARN, expected="a folder that this user may write to",
                    figure=f"not measured: this user may not write to {folder.absolute()}",
                    next="Name the folder that jobs write to with --folder")  # fmt: skip
        return
    except OSError as problem:
        yield Check(name="disk", status=Status.FAIL, figure=f"{folder.absolute()}: {problem.strerror}", expected="room",
                    next="Make room, or name another folder with --folder")  # fmt: skip
        return
    yield judged("disk", rate, known, lambda value: f"{format_bytes(value)}/s")
    yield Check(name="disk contents", status=Status.PASS if whole else Status.FAIL,
                figure="as written" if whole else "not what was written", expected="as written",
                next="" if whole else "Do not keep checkpoints there; replace the disk")  # fmt: skip


def judged(name: str, value: float, known: Range | None, told: Callable[[float], str]) -> Check:
    """A figure beside its expectation; without one it is told and passes nothing."""
    if known is None:
        return Check(name=name, status=Status.SKIP, figure=told(value), expected="no expectation known")
    status = Status.PASS if value >= known.good else Status.WARN if value >= known.bad else Status.FAIL
    return Check(
        name=name, status=status, figure=told(value), expected=f"at least {told(known.good)} ({known.source})",
        next="" if status is Status.PASS else "Look for other work on it, heat, power limits or a failing part",
    )  # fmt: skip


def _precisions(torch: Any, device: str) -> list[tuple[str, Any]]:
    if device == "cpu":
        return [("fp32", torch.float32)]
    return [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]


def _tf32(torch: Any, device: str, expected: Expectations, seconds: float) -> Iterator[Check]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        rate = _flops(torch, device, torch.float32, seconds)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    yield judged("matmul tf32", rate, expected.flops.get("tf32"), lambda value: f"{value / 1e12:.3g} TFLOP/s")


def _flops(torch: Any, device: str, dtype: Any, seconds: float) -> float:
    side = 1024 if device == "cpu" else 8192
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    return 2 * side**3 / _seconds_each(torch, device, lambda: left @ right, seconds)


def _copied(torch: Any, device: str, seconds: float) -> float:
    """Bytes read and written by a copy, of more than caches hold."""
    count = (64 << 20) if device == "cpu" else (2 << 30)
    source = torch.zeros(count, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * count / _seconds_each(torch, device, lambda: target.copy_(source), seconds)


def _seconds_each(torch: Any, device: str, work: Callable[[], Any], seconds: float) -> float:
    """The median of repetitions, in batches that a device can be waited for."""
    wait = torch.cuda.synchronize if device != "cpu" else lambda: None
    for _ in range(3):
        work()
    wait()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        started = time.perf_counter()
        for _ in range(4):
            work()
        wait()
        times.append((time.perf_counter() - started) / 4)
    return sorted(times)[len(times) // 2]
