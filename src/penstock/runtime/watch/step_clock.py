"""How long the steps of this worker take, and how much of that is its own doing.

All workers of a world step together, so the time of a step says nothing about who is slow. What differs is the wait:
a worker whose gradients are complete stands in the exchange until the slowest has come, and the slowest waits least.
The moment in between is when the gradient of the model's first parameter, the last of a backward pass, is there.
On CUDA it is a moment of the device's own time line. Sharded models wait inside every layer and show no such moment:
of theirs all waits are added up (:mod:`.shard_waits`).
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
from torch import nn

from penstock.core import StepTimes
from penstock.runtime.watch.shard_waits import ShardWaits

TELL_EVERY_S = 5.0
"""How often the times of a worker are told."""
LEAST_STEPS = 5
"""Of which the times that are told are medians."""
MOST_STEPS_KEPT = 1000
_EXEMPT = 2
"""Steps at the beginning of a world that say nothing: caches are filled, kernels chosen, graphs compiled."""


class StepClock:
    """Takes the times of steps; a step lasts from its beginning to the next one's."""

    def __init__(self, device: torch.device) -> None:
        self._moments: _HostMoments | _CudaMoments = _CudaMoments() if device.type == "cuda" else _HostMoments()
        self.shard_waits = ShardWaits()
        """Told by sharded models, which nobody has to :meth:`watch`."""
        self._exempt = _EXEMPT
        self._began: float | None = None
        self._input_s = self._wait_s = self._apart_s = 0.0
        self._samples = 0
        self._steps: list[tuple[float, float, float, int]] = []
        self._told_at = time.monotonic()
        self.checkpoint_s = 0.0
        """Of all steps so far."""
        self.steps = 0

    def watch(self, model: nn.Module) -> None:
        """Note when the gradients of a model are complete."""
        first = next((parameter for parameter in model.parameters() if parameter.requires_grad), None)
        if first is not None:
            first.register_post_accumulate_grad_hook(lambda _: self._moments.mark())  # type: ignore[no-untyped-call]

    def new_world(self) -> None:
        """What came before says nothing about what comes."""
        self._exempt, self._began = _EXEMPT, None
        self._steps.clear()

    def begin(self, samples: int) -> None:
        """A step begins, and the one before it is over."""
        now = time.monotonic()
        if self._began is not None:
            self._count(now - self._began)
        self._began, self._samples = now, samples
        self._input_s = self._wait_s = self._apart_s = 0.0
        self._moments.clear()
        self.shard_waits.clear()

    @contextmanager
    def fetching(self) -> Iterator[None]:
        """Samples are on their way."""
        started = time.monotonic()
        yield
        self._input_s += time.monotonic() - started

    @contextmanager
    def saving(self) -> Iterator[None]:
        """A checkpoint holds training up; no fault of the worker that writes it."""
        started = time.monotonic()
        yield
        spent = time.monotonic() - started
        self._apart_s += spent
        self.checkpoint_s += spent

    def exchanged(self, size: int) -> None:
        """Everyone's gradients are here."""
        self._wait_s = self._moments.since() if size > 1 else 0.0
        if size > 1:
            self.shard_waits.settle()

    def take(self, step: int) -> StepTimes | None:
        """The times since they were last taken, if there are enough."""
        now = time.monotonic()
        if now - self._told_at < TELL_EVERY_S or len(self._steps) < LEAST_STEPS:
            return None
        whole, inputs, waits, samples = zip(*self._steps, strict=True)
        own = [max(one - wait - fetched, 0.0) for one, fetched, wait in zip(whole, inputs, waits, strict=True)]
        taken = StepTimes(
            step=step, steps=len(whole), step_s=median(whole), compute_s=median(own), input_s=median(inputs),
            wait_s=median(waits), samples=float(median(samples)),
        )  # fmt: skip
        self._told_at = now
        self._steps.clear()
        return taken

    def _count(self, cycle_s: float) -> None:
        self.steps += 1
        if self._exempt:
            self._exempt -= 1
            return
        if len(self._steps) < MOST_STEPS_KEPT:
            taken = max(cycle_s - self._apart_s, 0.0)
            waited = min(self._wait_s + self.shard_waits.seconds, taken)
            self._steps.append((taken, self._input_s, waited, self._samples))


class _HostMoments:
    """A moment in the time of the processor, where gradients are exchanged by it."""

    def __init__(self) -> None:
        self._at: float | None = None

    def clear(self) -> None:
        self._at = None

    def mark(self) -> None:
        self._at = time.monotonic()

    def since(self) -> float:
        return 0.0 if self._at is None else time.monotonic() - self._at


class _CudaMoments:
    """A moment in the time of the device: the processor is far ahead of it. Asked once the device has settled."""

    def __init__(self) -> None:
        self._marked: Any = None

    def clear(self) -> None:
        self._marked = None

    def mark(self) -> None:
        self._marked = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._marked.record()

    def since(self) -> float:
        if self._marked is None:
            return 0.0
        now = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        now.record()
        now.synchronize()
        return float(self._marked.elapsed_time(now)) / 1000.0
