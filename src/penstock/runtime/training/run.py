"""A training run seen from inside one of its workers: the few calls a script makes, and what happens between two steps.

A run lives through a sequence of *worlds*. At a step border all members may agree to close one and open the next: those
who stay keep their process, model and optimizer; those who come receive the state from one who stays. A world can also
break; then the survivors open the next from the last step they completed. ``docs/elastic.md`` shows the loop.
"""

import atexit
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn

from penstock.core import (
    Bye,
    InputError,
    Joined,
    LossPolicy,
    StateSuspended,
    UnknownNameError,
    metric_values,
    parse_duration,
)
from penstock.runtime.agent.environment import WorkerEnvironment
from penstock.runtime.agent.link import AgentLink
from penstock.runtime.checkpoints.checkpoint import Checkpoints
from penstock.runtime.checkpoints.memory.snapshots import open_snapshots
from penstock.runtime.checkpoints.saving import Interval, Keeper, Wish, snapshots_within
from penstock.runtime.checkpoints.state import Parts
from penstock.runtime.data.reading.prefetch import LoadingStats
from penstock.runtime.training.data import Loader
from penstock.runtime.training.metric_log import log_no_more_with, log_with
from penstock.runtime.training.order import SampleOrder
from penstock.runtime.training.step import Step, Surroundings, Word
from penstock.runtime.training.wrapping import Wrapped, wrap
from penstock.runtime.watch.loss_guard import Rollback, diverged
from penstock.runtime.watch.run_watching import RunWatching
from penstock.runtime.watch.stacks import answer_signals
from penstock.runtime.world.accelerators import take_device
from penstock.runtime.world.group import WorldLostError, is_lost
from penstock.runtime.world.membership import Membership

_DEFAULT_INTERVAL_S = 300.0


class Run:
    """The worker's part in an elastic run; made by :func:`init`."""

    def __init__(
        self,
        link: AgentLink,
        parts: Parts,
        keeper: Keeper,
        membership: Membership,
        device: torch.device,
        watch: RunWatching,
    ) -> None:
        self.device = device
        self._link = link
        self._parts = parts
        self._keeper = keeper
        self._membership = membership
        self._is_over = False
        self._loader: Loader | None = None
        self._watch = watch
        parts.own["penstock.skipped"] = watch.guard.skipped

    @property
    def rank(self) -> int:
        return self._membership.rank

    @property
    def size(self) -> int:
        """Workers in the present world."""
        return self._membership.size

    @property
    def generation(self) -> int:
        """The number of the present world."""
        return self._membership.generation

    @property
    def is_main(self) -> bool:
        """Whether this worker is the one that prints and writes."""
        return self.rank == 0

    @property
    def completed(self) -> int:
        """Steps that are done and will not be done again."""
        return max(self._membership.completed, 0)

    @property
    def loading(self) -> LoadingStats | None:
        """How long training has waited for data, once there is a loop."""
        return None if self._loader is None else self._loader.stats()

    def wrap(self, model: nn.Module, strategy: str = "ddp", *, name: str = "model", **options: Any) -> Wrapped:
        """The model for the loop, part of the state under ``name``. Options go to DDP or to ``fully_shard``."""
        if strategy == "fsdp2" and self._link.has_agent and not self._keeper.can_save:
            raise InputError(
                "strategy='fsdp2' without a checkpoint directory", "a directory all workers see",
                "Pass checkpoint_dir to elastic.init: sharded state gets into a new world through it",
            )  # fmt: skip
        wrapped = wrap(model, strategy, self.device, options)
        self._parts.add(name, wrapped)
        return wrapped

    def attach(self, **parts: Any) -> None:
        """Name what else belongs to the state: optimizers, schedulers, anything with a ``state_dict``."""
        for name, part in parts.items():
            self._parts.add(name, part)

    def steps(
        self,
        dataset: Any,
        *,
        global_batch: int,
        steps: int | None = None,
        epochs: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        micro_batch: int | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        prefetch: int | None = None,
    ) -> Iterator[Step]:
        """The steps that are still to do, each with this worker's share of the global batch.

        They end early, with the state saved, when the metric that the job trains until says that training is over.

        ``dataset`` is packed tokens, map-style, or a tuple of tensors of one length. ``micro_batch`` caps how many
        samples are in memory at once: use it with :meth:`Step.parts`, so that a narrow world does not run out of
        memory. ``prefetch`` batches are read ahead in a thread: 4 of packed tokens, none of other data unless given.
        """
        loader = Loader(dataset, self.device, collate, prefetch)
        order = SampleOrder(
            samples=len(loader), batch=global_batch, seed=seed, shuffle=shuffle, order=loader.own_order(seed)
        )
        total = _total(order, steps, epochs)
        if micro_batch is not None and micro_batch < 1:
            raise InputError(f"micro_batch={micro_batch}", "at least 1", "Leave it out to use whole shares")
        if self._membership.started:
            raise InputError("the run has had its loop", "one run.steps() per run", "Train everything in one loop")
        self._parts.check()
        self._loader = loader
        around = Surroundings(
            membership=self._membership,
            parts=self._parts,
            link=self._link,
            keeper=self._keeper,
            loader=loader,
            seed=seed,
            micro_batch=micro_batch,
            guard=self._watch.guard,
            clock=self._watch.clock,
        )
        self._watch.begin(self._parts)
        return self._iterate(around, order, total)

    def log(self, values: Mapping[str, Any] | None = None, /, *, step: int | None = None, **named: Any) -> None:
        """Log metrics: ``run.log(val_acc=0.91)``, or ``run.log({"eval/loss": 0.3})``; of the present step unless given.

        Only the main worker's count, so every worker may call it.
        """
        logged = metric_values({**(values or {}), **named}, self.completed if step is None else step)
        if self.is_main:
            self._link.log(logged)

    def close(self) -> None:
        """Finish what is being written and said, and leave; happens by itself when the process ends."""
        log_no_more_with(self)
        self._keeper.settle()
        self._link.close()
        self._membership.end()

    def _iterate(self, around: Surroundings, order: SampleOrder, total: int) -> Iterator[Step]:
        member = self._membership
        if not member.enter():
            _exit()
        announced = None
        try:
            while (number := self._next_step()) < total and not self._is_over:
                if announced != (member.generation, number):
                    around.loader.follow(order, number, total, member.rank, member.size, around.micro_batch)
                announced = (member.generation, number + 1)
                share = order.share(number, member.rank, member.size)
                step = Step(around, share, number=number, epoch=order.epoch_of(number))
                self._watch.before_step(is_main=self.is_main)
                yield step
                self._watch.after_step(number)
                self._after(step, share.of, total)
        finally:
            self._watch.end()
            self._keeper.hold()
            around.loader.close()
        self._finish()

    def _next_step(self) -> int:
        """How many steps are done; those that are skipped count as done."""
        member = self._membership
        member.completed = self._watch.guard.skipped.next(member.completed)
        return member.completed

    def _after(self, step: Step, samples: int, total: int) -> None:
        if not step.entered or (step.word is None and not step.lost):
            raise InputError("a step was not taken", "`with step:` in every pass of the loop", "See docs/elastic.md")
        if step.lost:
            self._membership.completed += step.applied
            self._change_world()
            return
        self._membership.completed += 1
        self._watch.guard.note(step.number, step.loss, is_main=self.is_main)
        self._report(step, samples, total)
        assert step.word is not None
        self._obey(step.word)

    def _report(self, step: Step, samples: int, total: int) -> None:
        pace, done = self._membership.pace, self._membership.completed
        pace.end(samples)
        self._watch.tell_times(done)
        if not self.is_main:
            return
        if pace.fresh:
            self._link.say(Joined(generation=self.generation, pause_s=pace.take_pause()))
        if self._link.progress_due() or done == total:
            self._link.progress(step=done, total=total, loss=step.loss, samples_per_s=pace.take_rate())
        self._keeper.poll(done)

    def _obey(self, word: Word) -> None:
        """Do at the border what everyone has concluded from the words of the step."""
        done = self._membership.completed
        if word.suspend:
            saved = self._keeper.save_and_wait(done, is_main=self.is_main)
            if self.is_main:
                self._link.say(StateSuspended(step=self._keeper.saved_step))
            self._membership.part()
            if saved:
                self._keeper.forget_snapshots()
            _exit()
        elif word.finish:
            self._is_over = True
        elif word.rollback:
            self._go_back()
        elif word.switch:
            if self._parts.sharded and not self._keeper.save_and_wait(done, is_main=self.is_main):
                self._keeper.put_off()
                return
            self._membership.part()
            self._change_world()
        elif word.save:
            with self._watch.clock.saving():
                self._keeper.obey(word.save, done, is_main=self.is_main)
            if word.save is Wish.SAVE:
                self._watch.guard.saved(done)

    def _go_back(self) -> None:
        """Everyone returns to a healthy state together; should a peer be lost meanwhile, whoever has it is ahead."""
        guard, member = self._watch.guard, self._membership
        try:
            order = Rollback.from_row(member.hear_from_first(guard.wanted and guard.wanted.to_row()))
            if order.hopeless:
                raise diverged(order)
            member.go_back(order.before)
        except (RuntimeError, ConnectionError, WorldLostError) as error:
            if not is_lost(error):
                raise
            member.close()
            self._change_world()
        else:
            guard.rolled_back(order, member.completed, is_main=self.is_main)

    def _change_world(self) -> None:
        if not self._membership.advance():
            _exit()
        self._watch.clock.new_world()

    def _finish(self) -> None:
        saved = not self._keeper.regular or self._keeper.save_and_wait(self.completed, is_main=self.is_main)
        self._membership.rest()
        if saved:
            self._keeper.forget_snapshots()
        self._link.say(Bye())


def init(
    *,
    checkpoint_dir: str | Path | None = None,
    checkpoint_every: float | str | None = None,
    checkpoint_steps: int | None = None,
    keep: int = 2,
    memory_dir: str | Path | None = None,
    memory_every: float | str | None = None,
    memory_steps: int | None = None,
    arena_bytes: int | None = None,
    timeout_s: float = 120.0,
    patience_s: float = 600.0,
    watch_loss: str | None = None,
) -> Run:
    """Join the run this process belongs to; alone, it is a world of one and everything works the same.

    ``checkpoint_every`` is in seconds or like "5m"; with a directory (given here or by the platform) and no interval it
    is what the job file says, five minutes without one. Between two checkpoints snapshots stay in ``memory_dir``, a
    directory of a memory file system (the platform gives one), every ``memory_every`` or ``memory_steps``: ten times as
    often as checkpoints if neither is given. ``arena_bytes`` bounds the host memory that copies of the state take. A
    peer that answers no more counts as lost after ``timeout_s``, one that died at once; a worker waits ``patience_s``
    for a new world before it gives up. ``watch_loss`` is what to do about a loss that goes wrong: "auto" (the default),
    "rollback", "tell" or "off"; see ``docs/watching.md``.
    """
    place = WorkerEnvironment.from_environment()
    policy = _loss_policy(watch_loss or place.watch_loss)
    if place.agent is not None:
        answer_signals()
    device = take_device(place.local_rank)
    location = checkpoint_dir if checkpoint_dir is not None else place.checkpoints
    link = AgentLink(place.agent, place.worker, place.secret)
    parts = Parts(device)
    memory = open_snapshots(memory_dir if memory_dir is not None else place.memory) if location is not None else None
    files = Checkpoints(location, keep, memory=memory, arena_bytes=arena_bytes) if location is not None else None
    interval = _interval(checkpoint_every, checkpoint_steps, place.checkpoint_every)
    remembered = _memory_interval(memory_every, memory_steps, interval)
    keeper = Keeper(parts, link, files, interval, remembered, place.saved_step)
    member = Membership(place, link, parts, keeper, timeout_s=timeout_s, patience_s=patience_s)
    watch = RunWatching(link, keeper, device, loss=policy, profiles=place.profiles)
    run = Run(link, parts, keeper, member, device, watch)
    atexit.register(run.close)
    log_with(run)
    return run


def _interval(every: float | str | None, steps: int | None, of_the_file: str | None) -> Interval:
    """What the script says counts, then what its job file says."""
    if every is None and steps is None:
        return Interval(parse_duration(of_the_file) if of_the_file else _DEFAULT_INTERVAL_S, None)
    return Interval(parse_duration(every) if isinstance(every, str) else every, steps)


def _memory_interval(every: float | str | None, steps: int | None, between: Interval) -> Interval:
    if every is None and steps is None:
        return snapshots_within(between)
    return Interval(parse_duration(every) if isinstance(every, str) else every, steps, ("memory_every", "memory_steps"))


def _loss_policy(name: str | None) -> LossPolicy:
    try:
        return LossPolicy(name or LossPolicy.AUTO)
    except ValueError:
        raise UnknownNameError.of("policy for losses", str(name), tuple(LossPolicy)) from None


def _total(order: SampleOrder, steps: int | None, epochs: int | None) -> int:
    if (steps is None) == (epochs is None):
        raise InputError(f"steps={steps} and epochs={epochs}", "exactly one of them", "Say how long to train")
    total = steps if steps is not None else (epochs or 0) * order.steps_per_epoch
    if total < 1:
        raise InputError(f"steps={steps}, epochs={epochs}", "at least 1", "Say how long to train")
    return total


def _exit() -> NoReturn:
    """Leave for good, with success; the script's ``finally`` blocks still run."""
    sys.exit(0)
