"""When to save, who writes, and who is told."""

import time

import torch.distributed as dist

from penstock.core import InputError
from penstock.runtime.checkpoint import Checkpoints, Saved
from penstock.runtime.link import Link
from penstock.runtime.state import Parts


class Interval:
    """Checkpoints every so many seconds or steps; neither means only when asked."""

    def __init__(self, seconds: float | None, steps: int | None) -> None:
        for what, value in (("checkpoint_every", seconds), ("checkpoint_steps", steps)):
            if value is not None and value <= 0:
                raise InputError(f"{what}={value:g}", "more than 0", "Leave it out for no regular checkpoints")
        self._seconds = seconds
        self._steps = steps
        self._step = 0
        self._at = time.monotonic()

    @property
    def active(self) -> bool:
        return self._seconds is not None or self._steps is not None

    def due(self, step: int) -> bool:
        by_steps = self._steps is not None and step - self._step >= self._steps
        return by_steps or (self._seconds is not None and time.monotonic() - self._at >= self._seconds)

    def restart(self, step: int) -> None:
        self._step, self._at = step, time.monotonic()


class Keeper:
    """Saves and loads the state of a run. Replicated state is written by rank 0 alone, shards by their holders."""

    def __init__(self, parts: Parts, link: Link, files: Checkpoints | None, interval: Interval) -> None:
        self.group: dist.ProcessGroup | None = None
        self._parts = parts
        self._link = link
        self._files = files
        self._interval = interval
        self._last: int | None = None
        self._prepared = False

    @property
    def can_save(self) -> bool:
        return self._files is not None

    @property
    def regular(self) -> bool:
        return self._files is not None and self._interval.active

    def due(self, step: int) -> bool:
        """Whether a checkpoint of this step was asked for or is due by the clock."""
        if self._files is None:
            return False
        return self._link.checkpoint or (self._interval.due(step) and not self._files.busy)

    def tidy(self) -> None:
        if self._files is not None:
            self._files.sweep()

    def save(self, step: int, *, is_main: bool) -> None:
        """Begin a checkpoint of the state after ``step`` steps, unless there is one already."""
        self._link.clear_checkpoint()
        self._interval.restart(step)
        if self._files is None or not (is_main or self._parts.sharded):
            return
        self.settle()
        # Every holder of shards must come to the same answer here, so it cannot be read from the disk.
        if step != self._last:
            self._last = step
            self._files.begin(self._parts.capture(step), self.group)

    def save_and_wait(self, step: int, *, is_main: bool) -> None:
        self.save(step, is_main=is_main)
        self.settle()
        if self.group is not None:
            dist.barrier(self.group)

    def poll(self, step: int) -> None:
        """Rank 0's look at the background after a step; the first one has it get ready."""
        if self._files is None:
            return
        if self.regular and not self._prepared and not self._parts.sharded:
            self._prepared = True
            self._files.prepare(self._parts.capture(step))
        self._announce(self._files.poll())

    def settle(self) -> None:
        """Wait for what is being written."""
        if self._files is not None:
            self._announce(self._files.settle())

    def load(self, *, is_main: bool) -> int:
        """Take over the newest intact checkpoint; returns its step, or 0 if there is none. With a group: together."""
        found = [self._files.newest() if self._files is not None and (is_main or self.group is None) else None]
        if self.group is not None:
            dist.broadcast_object_list(found, src=0, group=self.group)
        if self._files is None or found[0] is None:
            return 0
        self._files.load(found[0], self._parts, self.group)
        self._last = found[0].step
        self._interval.restart(self._last)
        return self._last

    def _announce(self, saved: Saved | None) -> None:
        if saved is not None:
            self._link.say("checkpointed", step=saved.step, path=str(saved.path), blocking_s=saved.blocking_s)
