"""A short profile now and then, at a cost that is bounded and counted.

A few steps in a row are profiled with the PyTorch profiler and made into a small table at once. What that took
(starting and stopping it, reading its events, and how much longer the profiled steps were than those before them) is
added up; the next profile waits until all of them together, with the next, are within :data:`BUDGET` of the run's time.
A script that profiles itself is left alone.
"""

import logging
import os
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch._C._autograd import DeviceType, _profiler_enabled

from penstock.core import Hotspots
from penstock.runtime.watch.hotspot_table import WINDOW, ProfileEvent, TimeParts, time_parts

_log = logging.getLogger(__name__)
BUDGET = 0.005
"""The share of a run's time that profiles may take."""
STEPS = 3
_FIRST_COST_S = 0.3
"""What a profile is believed to cost before one was made."""
_LONGEST_STEP_S = 30.0
"""Steps that take longer are not profiled: their events would take more memory than a look is worth."""


def marked(name: str) -> AbstractContextManager[Any]:
    """A mark in a profile, if one is being made."""
    return torch.profiler.record_function(name) if _profiler_enabled() else nullcontext()


class ProfileSampler:
    """Decides when to look, and looks."""

    def __init__(self, device: torch.device, budget: float = BUDGET, first_cost_s: float = _FIRST_COST_S) -> None:
        self._device = device
        self._budget = budget
        self._expected_s = first_cost_s
        self._began = time.monotonic()
        self._cost_s = 0.0
        self._step_began: float | None = None
        self._usual_s = 0.0
        self._profile: torch.profiler.profile | None = None
        self._mark: Any = None
        self._left = 0
        self._steps_s = 0.0

    @property
    def cost(self) -> float:
        """The share of the time so far that looking has taken."""
        return min(self._cost_s / max(time.monotonic() - self._began, 1e-9), 1.0)

    @property
    def is_profiling(self) -> bool:
        return self._profile is not None

    def before_step(self) -> None:
        if self._profile is None and self._is_due():
            started = time.monotonic()
            self._start()
            self._cost_s += time.monotonic() - started
        self._step_began = time.monotonic()

    def after_step(self, number: int, *, checkpoint_s: float) -> Hotspots | None:
        """A step has ended; a table comes back after the last one of a profile."""
        if self._step_began is None:
            return None
        took, self._step_began = time.monotonic() - self._step_began, None
        if self._profile is None:
            self._usual_s = took if not self._usual_s else 0.9 * self._usual_s + 0.1 * took
            return None
        self._steps_s += took
        self._left -= 1
        return self._stop(number, checkpoint_s) if self._left == 0 else None

    def close(self) -> None:
        """Training is over, perhaps in the middle of a profile: that one is given up."""
        if self._profile is not None:
            self._mark.__exit__(None, None, None)
            self._profile.stop()
            self._profile = self._mark = None

    def _is_due(self) -> bool:
        allowed = self._budget * (time.monotonic() - self._began)
        fits = self._cost_s + self._expected_s <= allowed
        return fits and 0.0 < self._usual_s < _LONGEST_STEP_S and not _profiler_enabled()

    def _start(self) -> None:
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self._device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # its library would write into the script's output
        self._profile = torch.profiler.profile(activities=activities)
        self._profile.start()
        self._mark = torch.profiler.record_function(WINDOW)
        self._mark.__enter__()
        self._left, self._steps_s = STEPS, 0.0

    def _stop(self, number: int, checkpoint_s: float) -> Hotspots | None:
        """The profile as a table; one that cannot be read is given up, and costs what it cost."""
        assert self._profile is not None
        started = time.monotonic()
        found: TimeParts | None = None
        try:
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
            self._mark.__exit__(None, None, None)
            self._profile.stop()
            found = time_parts(_events(self._profile), STEPS)
        except (RuntimeError, AttributeError) as error:
            _log.warning("a profile of steps up to %d cannot be read: %s", number, error)
        self._profile = self._mark = None
        slower_s = max(self._steps_s - STEPS * self._usual_s, 0.0)
        spent = time.monotonic() - started + slower_s
        self._cost_s, self._expected_s = self._cost_s + spent, spent
        return None if found is None or not found.whole else self._table(found, number, checkpoint_s)

    def _table(self, found: TimeParts, number: int, checkpoint_s: float) -> Hotspots:
        parts = [part / STEPS for part in (found.input, found.host, found.kernels, found.communication)]
        return Hotspots(
            step=max(number - STEPS + 1, 0), steps=STEPS, device=_device_name(self._device),
            step_s=sum(parts) + checkpoint_s, input_s=parts[0], host_s=parts[1], kernels_s=parts[2],
            communication_s=parts[3], checkpoint_s=checkpoint_s, cost=self.cost, operators=found.operators,
        )  # fmt: skip


def _events(profile: Any) -> list[ProfileEvent]:
    """As the profiler's own library has them, without the tree that torch would make of them.

    Marks that a script sets around its kernels show on the device too, as if they were kernels.
    """
    cpu = DeviceType.CPU
    return [
        ProfileEvent(
            one.name(), one.start_ns(), one.start_ns() + one.duration_ns(),
            one.start_thread_id() if one.device_type() == cpu else one.device_resource_id(), one.device_type() != cpu,
        )
        for one in profile.profiler.kineto_results.events()
        if one.device_type() == cpu or not one.is_user_annotation()
    ]  # fmt: skip


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
