"""When to save, who writes, and who is told."""

import time
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import torch
import torch.distributed as dist

from penstock.core import CheckpointFailed, CheckpointSaved, CheckpointUnreadable, InputError, clean_text
from penstock.runtime.checkpoints.checkpoint import Checkpoints, Look, NotSaved, Saved, Unreadable
from penstock.runtime.checkpoints.layout.resharding import Origin, newest_whole
from penstock.runtime.checkpoints.manifest import Manifest
from penstock.runtime.checkpoints.memory.shards import ShardName
from penstock.runtime.checkpoints.memory.snapshots import MemorySnapshots, new_set_id
from penstock.runtime.checkpoints.saved_state import UnreadableCheckpointError
from penstock.runtime.checkpoints.state import State
from penstock.runtime.value_messages import broadcast_value, gather_values

_COMPLAIN_EVERY_S = 60.0
"""How often the same trouble with saving is told."""
_NAMED = 3
"""Checkpoints that cannot be read, named in one message."""
_SNAPSHOTS = 10
"""In memory between two checkpoints."""
_RETRY_S = 5.0
"""How long a change of the world that needs a checkpoint is put off when there cannot be one."""


class Interval:
    """Checkpoints every so many seconds or steps; neither means only when asked."""

    def __init__(
        self,
        seconds: float | None,
        steps: int | None,
        names: tuple[str, str] = ("checkpoint_every", "checkpoint_steps"),
    ) -> None:
        for what, value in zip(names, (seconds, steps), strict=True):
            if value is not None and value <= 0:
                raise InputError(f"{what}={value:g}", "more than 0", "Leave it out for no regular checkpoints")
        self._seconds = seconds
        self._steps = steps
        self._step = 0
        self._at = time.monotonic()

    def divided(self, parts: int) -> "Interval":
        """So many of it in one of this."""
        seconds = None if self._seconds is None else self._seconds / parts
        return Interval(seconds, None if self._steps is None else max(self._steps // parts, 1))

    @property
    def active(self) -> bool:
        return self._seconds is not None or self._steps is not None

    def due(self, step: int) -> bool:
        by_steps = self._steps is not None and step - self._step >= self._steps
        return by_steps or (self._seconds is not None and time.monotonic() - self._at >= self._seconds)

    def restart(self, step: int) -> None:
        self._step, self._at = step, time.monotonic()


def snapshots_within(between: Interval) -> Interval:
    """How often snapshots stay in memory between checkpoints, unless somebody says how often."""
    return between.divided(_SNAPSHOTS)


class Listener(Protocol):
    """Who is told what became of checkpoints."""

    def say(self, message: CheckpointSaved | CheckpointFailed | CheckpointUnreadable, /) -> None: ...


class Wish(IntEnum):
    """What rank 0 wants to be done with the state at the coming border."""

    NOTHING = 0
    REMEMBER = 1
    SAVE = 2


@dataclass(frozen=True, slots=True)
class Found:
    """What a world goes on from: a snapshot in memory, a checkpoint, or neither; and what it calls its own snapshots.

    ``nodes`` is the machine of each worker; empty where a worker has no memory for snapshots. ``passed_over`` are newer
    checkpoints that cannot be read.
    """

    origin: Origin | None
    manifest: Manifest | None
    set_id: str
    nodes: tuple[str, ...]
    passed_over: tuple[Unreadable, ...] = ()

    @property
    def any(self) -> bool:
        return self.origin is not None or self.manifest is not None


class Keeper:
    """Saves and loads the state of a run. Replicated state is written by rank 0 alone, shards by their holders."""

    def __init__(
        self,
        parts: State,
        link: Listener,
        files: Checkpoints | None,
        interval: Interval,
        memory_interval: Interval | None = None,
        expected: int = 0,
    ) -> None:
        """``expected`` is the step that is known to be saved: without that state nothing begins at step 0."""
        self.group: dist.ProcessGroup | None = None
        self._leads = True
        self._parts = parts
        self._link = link
        self._files = files
        self._interval = interval
        self._memory_interval = memory_interval or Interval(None, None)
        self._last: int | None = None
        self._remembered: int | None = None
        self._prepared = False
        self._complained: tuple[str, float] = ("", 0.0)
        self._put_off_until = 0.0
        self.saved_step = 0
        self._expected = expected
        if files is not None:
            parts.call_before_updates(files.hold_for_peers)

    @property
    def can_save(self) -> bool:
        return self._files is not None

    @property
    def regular(self) -> bool:
        return self._files is not None and self._interval.active

    @property
    def _memory(self) -> MemorySnapshots | None:
        return self._files.memory if self._files is not None else None

    def join(self, group: dist.ProcessGroup) -> None:
        """From now on state is sharded over the members of a group; who leads it is known beyond its end."""
        self.group, self._leads = group, dist.get_rank(group) == 0

    def leave(self) -> None:
        """The group is closed: what was under way has ended one way or the other, and so have its snapshots."""
        if self.group is not None:
            self.group = None
            if self._files is not None:
                self._announce(self._files.detach())
                self._files.close_memory()

    def due(self, step: int) -> Wish:
        """Whether the state of this step should be saved, or at least remembered."""
        if self._files is None:
            return Wish.NOTHING
        if self._interval.due(step) and not self._files.busy:
            return Wish.SAVE
        remembers = self._memory is not None and self._memory_interval.due(step) and self._files.has_room
        return Wish.REMEMBER if remembers else Wish.NOTHING

    @property
    def may_begin(self) -> bool:
        """Whether a checkpoint could be begun now, due or not."""
        return self._files is not None and not self._files.busy

    def tidy(self) -> None:
        if self._files is not None:
            self._files.sweep()

    def obey(self, wish: Wish, step: int, *, is_main: bool) -> None:
        """Do at a border what rank 0 wants."""
        if wish is Wish.SAVE:
            self.save(step, is_main=is_main)
        elif wish is Wish.REMEMBER:
            self.remember(step, is_main=is_main)

    def save(self, step: int, *, is_main: bool) -> None:
        """Begin a checkpoint of the state after ``step`` steps, unless there is one already."""
        self._interval.restart(step)
        self._memory_interval.restart(step)
        if self._files is None or not (is_main or self._parts.sharded):
            return
        self.settle()
        # Every holder of shards must come to the same answer here, so it cannot be read from the disk.
        if step != self._last:
            self._last = self._remembered = step
            self._files.begin(self._parts.capture(step), self.group)

    def remember(self, step: int, *, is_main: bool) -> None:
        """Begin a snapshot in memory, unless there is one of this step already."""
        self._memory_interval.restart(step)
        if self._files is not None and (is_main or self._parts.sharded) and step != self._remembered:
            self._remembered = step
            self._files.remember(self._parts.capture(step))

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

    def latest_step(self, *, is_main: bool) -> int:
        """How far this worker could go on from: what its machine remembers and, for rank 0, what claims to be saved."""
        if self._files is None:
            return -1
        remembered = self._memory.place.newest_step() if self._memory is not None else -1
        return max(remembered, self._files.latest_step()) if is_main else remembered

    def find(self, *, is_main: bool) -> Found:
        """The newest whole state there is, in memory or saved. With a group all find it together.

        Storage is not read where memory has what is as new: its names alone tell how far it goes.
        """
        memory, group = self._memory, self.group
        offers = list(memory.offers()) if memory is not None else []
        if self._files is not None and self._files.pending_step > max((name.step for name in offers), default=-1):
            self.settle()
        saved = self._files.latest_step() if self._files is not None and is_main else -1
        rows = [name.to_row() for name in offers]
        told = gather_values((rows, saved, memory.node if memory is not None else "", new_set_id()), group)
        nodes = tuple(said[2] for said in told)
        held = [[ShardName.from_row(row) for row in said[0]] for said in told]
        origin = newest_whole(held) if all(nodes) else None
        look = Look(None, ())
        if origin is None or origin.step < max(said[1] for said in told):
            look = self._look(is_main=is_main)
        if origin is not None and look.manifest is not None and look.manifest.step > origin.step:
            origin = None
        found = Found(origin, look.manifest, told[0][3], nodes if all(nodes) else (), look.passed_over)
        if not found.any and self._files is not None and (look.passed_over or self._expected):
            raise self._lost(look)
        return found

    def load(self, found: Found) -> int:
        """Take over what was found; returns its step, or 0 if there is nothing. With a group: together."""
        step, self._last = 0, None
        if found.origin is not None and self._memory is not None:
            self._memory.recall(found.origin, self._parts, self.group)
            step = found.origin.step
        elif found.manifest is not None and self._files is not None:
            self._files.load(found.manifest, self._parts, self.group)
            step = self._last = self.saved_step = found.manifest.step
        if found.passed_over and self._files is not None and self._leads:
            newest = found.passed_over[0]
            self._files.set_aside(each.name for each in found.passed_over)
            self._link.say(CheckpointUnreadable(step=newest.step, reason=clean_text(newest.reason), used=step))
        self._remembered = step
        self._interval.restart(step)
        self._memory_interval.restart(step)
        return step

    def begin_snapshots(self, *, is_main: bool) -> None:
        """Get memory ready for the snapshots of replicated state, which rank 0 alone makes."""
        memory = self._memory
        if self._files is None or memory is None:
            return
        if is_main and not memory.is_open:
            self._files.open_memory()
        elif not is_main and memory.is_open:
            self._files.close_memory()

    def begin_shard_snapshots(self, found: Found, group: dist.ProcessGroup) -> None:
        """The same for sharded state: everybody makes their own and holds a peer's."""
        if self._files is not None and self.group is not None and found.nodes:
            rank = dist.get_rank(self.group)
            self._files.open_memory(set_id=found.set_id, rank=rank, nodes=found.nodes, group=group)

    def forget_snapshots(self) -> None:
        """Everything is saved, or nobody will go on: memory is given back."""
        if self._files is not None and self._memory is not None:
            self._files.close_memory()
            self._memory.remove()

    def has_before(self, step: int) -> bool:
        """Whether there is a whole checkpoint of at most so many steps."""
        if self._files is None:
            return False
        found = self._files.newest(at_most=step)
        self._files.release()
        return found is not None

    def go_back(self, at_most: int, *, is_main: bool) -> int:
        """Take over the newest checkpoint of at most so many steps, whatever is later being removed; returns its step.

        With a group all do it together; of replicated state rank 0 loads, and every worker forgets its snapshots.
        """
        if self._files is not None:
            self._files.drop_after(at_most, is_main=is_main)
        if not (is_main or self._parts.sharded):
            return 0
        look = self._look(is_main=is_main, at_most=at_most)
        if look.manifest is None:
            raise self._lost(look)
        return self.load(Found(None, look.manifest, "", (), look.passed_over))

    def _look(self, *, is_main: bool, at_most: int | None = None) -> Look:
        """What storage holds, as rank 0 of a group sees it."""
        looks = self._files is not None and (is_main or self.group is None)
        look = self._files.look(at_most=at_most) if self._files is not None and looks else Look(None, ())
        return look if self.group is None else Look.from_row(broadcast_value(look.to_row(), 0, self.group))

    def _lost(self, look: Look) -> UnreadableCheckpointError:
        """Saved work that cannot be read is never given up without a word: the run stops, and says why."""
        assert self._files is not None
        found = "; ".join(f"step {each.step}: {each.reason}" for each in look.passed_over[:_NAMED])
        step = max([each.step for each in look.passed_over], default=self._expected)
        why = f"no checkpoint in {self._files.location} can be read ({found})"
        if not found:
            why = f"step {step} was saved in {self._files.location}, and no checkpoint is there"
        if self._leads:
            self._link.say(CheckpointUnreadable(step=step, reason=clean_text(why)))
        return UnreadableCheckpointError(
            why, "a checkpoint that can be read",
            "Repair or restore one; to begin again at step 0: penstock resume JOB --from-scratch, or another directory",
        )  # fmt: skip

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
        if news and self._leads:
            self._complained = (outcome.reason, time.monotonic())
            reason = clean_text(outcome.reason)
            self._link.say(CheckpointFailed(step=outcome.step, path=outcome.path, reason=reason))
