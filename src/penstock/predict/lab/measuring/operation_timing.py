"""How long each operation of something that runs takes on a device, whatever the operation is.

The times are the driver's records of the kernels that an operation launched. On a machine without a GPU there are
none; then the wall clock around each operation stands in, which is good enough to try a script out.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from penstock.predict.capture.mapping import operation_name
from penstock.predict.lab.measuring.training import _CPU, _attribute, _labels, _Timed, _Watcher
from penstock.predict.lab.records.operations import Operation, TimedOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Operations of an iteration, and how long the device was busy in one that nobody watched."""

    operations: tuple[TimedOperation, ...]
    busy_s: float
    kernels: int
    """Kernels and copies that the device ran in it."""


class OperationWatcher(_Watcher):  # type: ignore[no-untyped-call]
    """Keeps what each operation was beside what it is read as."""

    def __init__(self, device: str, around: Callable[[int], Any]) -> None:
        super().__init__(device, False, around)
        self.operations: list[Operation] = []

    def _run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._around(len(self.seen)):
            start = time.perf_counter()
            out = func(*args, **kwargs)
            taken = time.perf_counter() - start
        self.seen.append(_Timed(None) if self._device == "cuda" else _Timed(None, taken, 1))
        self.operations.append(Operation.of(func, args, kwargs, out))
        return out


def record(step: Callable[[], Any], device: str, *, steps: int = 2) -> Recording:
    """Run ``step`` a few times, watched and unwatched."""
    if device != "cuda":
        watchers = [_watched(step, OperationWatcher("cpu", lambda _: nullcontext())) for _ in range(steps)]
        return Recording(operations=_joined(watchers), busy_s=0.0, kernels=0)
    from torch.profiler import ProfilerActivity, profile

    watchers = []
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(2):
            step()
        torch.cuda.synchronize()
        for index in range(steps):
            watchers.append(_watched(step, OperationWatcher("cuda", _labels(index))))
        torch.cuda.synchronize()
    events = profiler.profiler.kineto_results.events()
    _attribute(events, [watcher.seen for watcher in watchers])
    before = min((e.start_ns() for e in events if e.device_type() == _CPU and e.name().startswith("#")), default=0)
    unwatched = [
        e for e in events if e.device_type() != _CPU and not e.name().startswith("#") and e.start_ns() < before
    ]
    return Recording(
        operations=_joined(watchers), busy_s=sum(e.duration_ns() for e in unwatched) / 2e9, kernels=len(unwatched) // 2
    )


class HostClock(TorchDispatchMode):
    """How long the host takes to hand each operation to the device, by name, without what calls and records it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        start = time.perf_counter()
        out = func(*args, **(kwargs or {}))
        self.seconds[operation_name(func)].append(time.perf_counter() - start)
        return out


def host_seconds(step: Callable[[], Any], *, steps: int = 3) -> dict[str, float]:
    """The median for every operation of a few iterations; the device must be idle enough not to hold the host up."""
    clock = HostClock()
    for _ in range(steps):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        with clock:
            step()
    return {name: median(each) for name, each in sorted(clock.seconds.items())}


def _watched(step: Callable[[], Any], watcher: OperationWatcher) -> OperationWatcher:
    with watcher:
        step()
    return watcher


def _joined(watchers: list[OperationWatcher]) -> tuple[TimedOperation, ...]:
    """Alike operations together, those that launched nothing as well."""
    groups: dict[Operation, list[_Timed]] = defaultdict(list)
    for watcher in watchers:
        for operation, timed in zip(watcher.operations, watcher.seen, strict=True):
            groups[operation].append(timed)
    return tuple(
        TimedOperation(
            operation=operation, seconds=median(timed.seconds for timed in group),
            count=max(1, round(len(group) / len(watchers))),
            launches=sum(timed.launches for timed in group) / len(group),
            kernel=max(group, key=lambda timed: timed.longest).kernel[:120],
        )
        for operation, group in groups.items()
    )  # fmt: skip
