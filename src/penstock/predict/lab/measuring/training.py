"""Runs a training iteration for real: how long it takes, what it draws, and how long each of its kernels took.

Kernels are timed in place, inside iterations that follow each other without a pause, so caches, clocks and power are
what they are in training. On a GPU the times are the driver's own records of each kernel. On a CPU every operation is
timed as it runs: by the processor time of this thread where PyTorch has only one, which neighbours on a busy machine
do not stretch, else by the wall clock.
"""

import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from penstock.predict.capture.mapping import (
    COPY,
    PUT,
    ZEROS,
    call_of,
    copied_first,
    is_split,
    put_back,
    split,
    turned,
)
from penstock.predict.capture.optimizers import OPTIMIZERS
from penstock.predict.capture.setup import Hook, Setup, arithmetic, autocast, training_task
from penstock.predict.kernels.calls import KernelCall
from penstock.predict.lab.measuring.resident_memory import ResidentBytes, forget_peak, resident_bytes
from penstock.predict.lab.records.kernel_rows import KernelRow
from penstock.tools import NvmlDevice

_CPU = torch._C._autograd.DeviceType.CPU
_WARM_STEPS = 3
_MOST_STEPS = 4000
_RECORDED_STEPS = 2
_RECORDED_ON_CPU = 3
_FEWEST_LAPS_ON_CPU = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredIteration:
    """One network at one batch size: the median time of an iteration and what it needed."""

    seconds: float
    spread: float
    """Half the distance between the quartiles, as a share of the median."""
    issue_s: float
    """How long the host needs to hand one iteration to the device; 0 where they are one."""
    steps: int
    peak_bytes: int | None
    reserved_bytes: int | None
    joules: float | None
    process_bytes: int | None = None
    """What the process held before there was a network, on a CPU."""


class Training:
    """A network ready to be stepped on a device."""

    def __init__(self, hook: Hook, batch: int, setup: Setup, device: str) -> None:
        self.device, self.setup = device, setup
        self._before = _resident_before() if device == "cpu" else None
        self.work = training_task(hook, batch, setup, device)
        self.optimizer = OPTIMIZERS[setup.optimizer](self.work.weights())

    def step(self) -> None:
        with arithmetic(self.setup):
            with autocast(self.setup, self.device):
                loss = self.work.forward()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.optimizer.zero_grad()

    def warm_up(self, steps: int) -> None:
        """Libraries choose and load their kernels on the first step."""
        for _ in range(steps):
            self.step()
        self._settle()

    def time(self, seconds: float, gpu: NvmlDevice | None) -> MeasuredIteration:
        """Step for about ``seconds`` after a warm-up."""
        self.warm_up(_WARM_STEPS if self.device == "cuda" else 1)
        issue = min(self._issue() for _ in range(2)) if self.device == "cuda" else 0.0
        before = gpu.energy_j() if gpu else None
        laps = _laps_on_gpu(self.step, seconds) if self.device == "cuda" else _laps_on_cpu(self.step, seconds)
        after = gpu.energy_j() if gpu else None
        joules = (after - before) / len(laps) if after is not None and before is not None else None
        peak, reserved = _peaks() if self.device == "cuda" else _peaks_on_cpu(self._before)
        middle = median(laps)
        ordered = sorted(laps)
        quartiles = ordered[(3 * len(laps)) // 4] - ordered[len(laps) // 4]
        return MeasuredIteration(
            seconds=middle, spread=quartiles / 2 / middle, issue_s=issue, steps=len(laps), peak_bytes=peak,
            reserved_bytes=reserved, joules=joules, process_bytes=self._before.now if self._before else None,
        )  # fmt: skip

    def kernels(self, network: int) -> list[KernelRow]:
        """The kernels of an iteration with their times, alike calls together."""
        return self.record().rows(network)

    def record(self) -> "KernelRecords":
        """Run a few iterations and note when each kernel ran; what follows from it needs no device."""
        record = _record_gpu if self.device == "cuda" else _record_cpu
        return record(self.step, self.setup.tf32 and self.device == "cuda")

    def _issue(self) -> float:
        self._settle()
        start = time.perf_counter()
        self.step()
        issued = time.perf_counter() - start
        self._settle()
        return issued

    def _settle(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def _peaks() -> tuple[int, int]:
    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


def _resident_before() -> ResidentBytes | None:
    forget_peak()
    return resident_bytes()


def _peaks_on_cpu(before: ResidentBytes | None) -> tuple[int | None, int | None]:
    """What came on top of the process: the C library holds it, whether tensors lie there or not."""
    after = resident_bytes()
    on_top = after.peak - before.now if before and after else None
    return on_top, on_top


def _laps_on_gpu(step: Callable[[], None], seconds: float) -> list[float]:
    torch.cuda.reset_peak_memory_stats()
    marks = [_mark()]
    end = time.perf_counter() + seconds
    while (time.perf_counter() < end or len(marks) < 6) and len(marks) < _MOST_STEPS:
        step()
        marks.append(_mark())
        if len(marks) > 8:
            marks[-8].synchronize()
    torch.cuda.synchronize()
    return [first.elapsed_time(second) / 1e3 for first, second in pairwise(marks)]


def _mark() -> Any:
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def _laps_on_cpu(step: Callable[[], None], seconds: float) -> list[float]:
    laps: list[float] = []
    clock = cpu_clock()
    end = clock() + seconds
    while (clock() < end or len(laps) < _FEWEST_LAPS_ON_CPU) and len(laps) < _MOST_STEPS:
        start = clock()
        step()
        laps.append(clock() - start)
    return laps


def cpu_clock() -> Callable[[], float]:
    """What this thread worked where it is the only one, which no neighbour stretches; else the wall clock."""
    return time.thread_time if torch.get_num_threads() == 1 else time.perf_counter


@dataclass(slots=True)
class _Timed:
    call: KernelCall | None
    seconds: float = 0.0
    launches: int = 0
    kernel: str = ""
    longest: float = 0.0


@dataclass(frozen=True, slots=True)
class KernelRecords:
    """Operations of a few iterations, and the driver's records of kernels that are not yet joined to them."""

    steps: Sequence[Sequence[_Timed]]
    driver: Any = None

    def rows(self, network: int) -> list[KernelRow]:
        if self.driver is not None:
            _attribute(self.driver.events(), self.steps)
        return _rows(self.steps, network)


class _Watcher(TorchDispatchMode):
    """Wraps every operation that runs in ``around(index)``; what the device does one after the other runs one by one:
    gradients of convolutions and of cuts, and copies that a kernel wants first."""

    def __init__(self, device: str, tf32: bool, around: Callable[[int], AbstractContextManager[Any]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[_Timed] = []
        self._device, self._tf32, self._around = device, tf32, around

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        place = put_back(func, args)
        if place is not None:
            whole = self._run(ZEROS, args[:2], {})
            self._run(PUT, (place(whole), args[0]), {})
            return whole
        if not is_split(func):
            for position in copied_first(func, args) if self._device != "cpu" else ():
                copied = self._run(COPY, args[position : position + 1], {"memory_format": torch.contiguous_format})
                args = (*args[:position], copied, *args[position + 1 :])
            return self._run(func, args, kwargs)
        wanted = turned(args, self._device)
        if wanted is not None:
            args = (self._run(COPY, args[:1], {"memory_format": wanted}), *args[1:])
        results: list[Any] = [None, None, None]
        for part in split(args, self._device):
            for position, value in enumerate(self._run(func, part, kwargs)):
                results[position] = value if value is not None else results[position]
        return tuple(results)

    def _run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._around(len(self.seen)):
            out = func(*args, **kwargs)
        self.seen.append(_Timed(call_of(func, args, kwargs, out, tf32=self._tf32)))
        return out


def _record_cpu(step: Callable[[], None], tf32: bool) -> KernelRecords:
    steps, clock = [], cpu_clock()
    for _ in range(_RECORDED_ON_CPU):
        times: list[float] = []
        watcher = _Watcher("cpu", tf32, lambda _, times=times: _Stopwatch(clock, times))  # type: ignore[misc]
        with watcher:
            step()
        for timed, seconds in zip(watcher.seen, times, strict=True):
            timed.seconds, timed.launches = seconds, 1
        steps.append(watcher.seen)
    return KernelRecords(steps)


class _Stopwatch:
    """Lighter than a generator: what it costs itself is counted as the kernel's."""

    __slots__ = ("_clock", "_start", "_times")

    def __init__(self, clock: Callable[[], float], times: list[float]) -> None:
        self._clock, self._times = clock, times

    def __enter__(self) -> None:
        self._start = self._clock()

    def __exit__(self, *_: object) -> None:
        self._times.append(self._clock() - self._start)


def _record_gpu(step: Callable[[], None], tf32: bool) -> KernelRecords:
    """The driver's records of every kernel, joined to the operation that launched it by its label."""
    from torch.profiler import ProfilerActivity, profile

    watchers = []
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(2):
            step()
        for index in range(_RECORDED_STEPS):
            watchers.append(_Watcher("cuda", tf32, _labels(index)))
            with watchers[-1]:
                step()
        torch.cuda.synchronize()
    return KernelRecords([watcher.seen for watcher in watchers], profiler.profiler.kineto_results)


def _labels(step: int) -> Callable[[int], AbstractContextManager[Any]]:
    label = torch._C._profiler._RecordFunctionFast
    return lambda index: label(f"#{step}:{index}")


def _attribute(events: Sequence[Any], steps: Sequence[Sequence[_Timed]]) -> None:
    """A kernel names the host operation that launched it; that lies, in time, inside exactly one of our labels."""
    on_host = [event for event in events if event.device_type() == _CPU]
    labels = sorted(
        (e.start_ns(), e.start_ns() + e.duration_ns(), e.name()) for e in on_host if e.name().startswith("#")
    )
    starts = [start for start, _, _ in labels]
    began = {event.correlation_id(): event.start_ns() for event in on_host if event.correlation_id()}
    for event in events:
        if event.device_type() == _CPU or event.name().startswith("#"):
            continue
        at = began.get(event.linked_correlation_id())
        place = bisect_right(starts, at) - 1 if at is not None else -1
        if place < 0 or at is None or at > labels[place][1]:
            continue
        step, index = map(int, labels[place][2][1:].split(":"))
        timed, seconds = steps[step][index], event.duration_ns() / 1e9
        timed.seconds += seconds
        timed.launches += 1
        if seconds > timed.longest:
            timed.longest, timed.kernel = seconds, event.name()


def _rows(steps: Sequence[Sequence[_Timed]], network: int) -> list[KernelRow]:
    groups: dict[KernelCall, list[_Timed]] = defaultdict(list)
    for timed in (timed for step in steps for timed in step):
        if timed.call is not None and timed.launches:
            groups[timed.call].append(timed)
    return [
        KernelRow(
            call=call, seconds=median(timed.seconds for timed in group), count=max(1, round(len(group) / len(steps))),
            launches=sum(timed.launches for timed in group) / len(group),
            kernel=max(group, key=lambda timed: timed.longest).kernel, network=network,
        )
        for call, group in groups.items()
    ]  # fmt: skip
