"""When to save, who writes, and who is told."""

import time

import torch
import torch.distributed as dist

from penstock.core import CheckpointFailed, CheckpointSaved, InputError, clean_text
from penstock.runtime.agent.link import AgentLink
from penstock.runtime.checkpoints.checkpoint import Checkpoints, NotSaved, Saved
from penstock.runtime.checkpoints.state import Parts

_COMPLAIN_EVERY_S = 60.0
"""How often the same trouble with saving is told."""
_RETRY_S = 5.0
"""How long a change of the world that needs a checkpoint is put off when there cannot be one."""


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

    def __init__(self, parts: Parts, link: AgentLink, files: Checkpoints | None, interval: Interval) -> None:
        self.group: dist.ProcessGroup | None = None
        self._parts = parts
        self._link = link
        self._files = files
        self._interval = interval
        self._last: int | None = None
        self._prepared = False
        self._complained: tuple[str, float] = ("", 0.0)
        self._put_off_until = 0.0
        self.saved_step = 0
        if files is not None:
            parts.before_update = files.hold

    @property
    def can_save(self) -> bool:
        return self._files is not None

    @property
    def regular(self) -> bool:
        return self._files is not None and self._interval.active

    def due(self, step: int) -> bool:
        """Whether a checkpoint of this step is due."""
        if self._files is None:
            return False
        return self._interval.due(step) and not self._files.busy

    def tidy(self) -> None:
        if self._files is not None:
            self._files.sweep()

    def save(self, step: int, *, is_main: bool) -> None:
        """Begin a checkpoint of the state after ``step`` steps, unless there is one already."""
        self._interval.restart(step)
        if self._files is None or not (is_main or self._parts.sharded):
            return
        self.settle()
        # Every holder of shards must come to the same answer here, so it cannot be read from the disk.
        if step != self._last:
            self._last = step
            self._files.begin(self._parts.capture(step), self.group)

    @property
    def may_move(self) -> bool:
        """Whether a change of the world is not put off."""
        return time.monotonic() >= self._put_off_until

    def save_and_wait(self, step: int, *, is_main: bool) -> bool:
        """Save now; whether it is on the disk, which all holders of shards answer alike."""
        self.save(step, is_main=is_main)
        self.settle()
        if self.group is None:
            return self.saved_step == step
        saved = torch.tensor(float(self.saved_step == step or not is_main))
        dist.all_reduce(saved, dist.ReduceOp.MIN, group=self.group)
        return bool(saved)

    def put_off(self) -> None:
        """Sharded state that could not be saved must not leave its world; try again in a while."""
        self._last = None
        self._put_off_until = time.monotonic() + _RETRY_S

    def hold(self) -> None:
        """Wait until the state may change by other hands than an optimizer's."""
        if self._files is not None:
            self._files.hold()

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
        self._last = self.saved_step = found[0].step
        self._interval.restart(self._last)
        return self._last

    def _announce(self, outcome: Saved | NotSaved | None) -> None:
        if isinstance(outcome, Saved):
            self.saved_step, self._complained = outcome.step, ("", 0.0)
            self._link.say(CheckpointSaved(step=outcome.step, path=outcome.path, blocking_s=outcome.blocking_s))
        elif outcome is not None:
            self._complain(outcome)

    def _complain(self, outcome: NotSaved) -> None:
        if not self._parts.sharded:
            self._last = None
        reason, at = self._complained
        news = outcome.reason != reason or time.monotonic() - at >= _COMPLAIN_EVERY_S
        if news and (self.group is None or dist.get_rank(self.group) == 0):
            self._complained = (outcome.reason, time.monotonic())
            reason = clean_text(outcome.reason)
            self._link.say(CheckpointFailed(step=outcome.step, path=outcome.path, reason=reason))
