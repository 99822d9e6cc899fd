"""One step of training: this worker's samples, the exchange of gradients, and what all workers agree on meanwhile.

Along with the gradients travels one short word per worker (its part of the loss; whether it has heard of a new world;
whether to save, suspend, end or go back), and every worker draws the same conclusion at the same border. With DDP it is
the gradient of one more parameter, so agreement costs no exchange of its own; where that is not possible (several
models, shards, DDP with unused parameters) it is an exchange beside theirs, begun before the backward pass and read
after it.

If a peer is lost, the error leaves the ``with`` block before the optimizer has touched anything; the block swallows it
and the loop hands the same samples out again in the next world. Should one worker have finished the step before the
loss reached it, its result is complete and right: the next world starts from the most advanced member.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn

from penstock.core import InputError
from penstock.runtime.agent.link import AgentLink
from penstock.runtime.checkpoints.saving import Keeper, Wish
from penstock.runtime.checkpoints.state import Parts
from penstock.runtime.training.data import Loader, micro_batches
from penstock.runtime.training.order import Share, seed_step
from penstock.runtime.training.wrapping import WORD_SIZE
from penstock.runtime.watch.hotspot_table import INPUT
from penstock.runtime.watch.loss_guard import LossGuard
from penstock.runtime.watch.profile_sampler import marked
from penstock.runtime.watch.step_clock import StepClock
from penstock.runtime.world.group import WorldLostError, is_lost
from penstock.runtime.world.membership import Membership

_log = logging.getLogger(__name__)
_DEVICE_POLL_S = 0.0002


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every step of a loop needs."""

    membership: Membership
    parts: Parts
    link: AgentLink
    keeper: Keeper
    loader: Loader
    seed: int
    micro_batch: int | None
    guard: LossGuard
    clock: StepClock

    def wishes(self) -> tuple[bool, bool, int, bool, bool]:
        """Has this worker heard of a new world, should it suspend, what should be saved, is training over, go back?

        Rank 0 alone decides on saving and on going back.
        """
        is_main = self.membership.rank == 0
        heard = self.link.order is not None and self.keeper.may_move
        save = self._saving(self.membership.completed + 1) if is_main else Wish.NOTHING
        return heard, self.link.suspend, save, self.link.finish, is_main and self.guard.wanted is not None

    def _saving(self, step: int) -> Wish:
        """A state whose loss is wrong is not worth keeping."""
        if not self.guard.may_save:
            return Wish.NOTHING
        return Wish.SAVE if self.guard.must_save(step) and self.keeper.may_begin else self.keeper.due(step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What everyone concludes from the words of all. Worlds change only when all members have heard of the next."""

    loss: float
    switch: bool
    suspend: bool
    save: Wish
    finish: bool = False
    rollback: bool = False


class Step:
    """A step of the loop: ``with step as batch:`` with a call of :meth:`backward` inside.

    ``number`` counts the completed steps before it; ``samples`` are the indices this worker trains on; ``loss`` is the
    mean over the whole global batch, known once :meth:`backward` is through.
    """

    def __init__(self, around: Surroundings, share: Share, *, number: int, epoch: int) -> None:
        self.number = number
        self.epoch = epoch
        self.word: Word | None = None
        self.entered = False
        self.lost = False
        self._around = around
        self._share = share
        self._size = around.membership.size
        self._in_hand = share.counted
        self._is_last = True
        self._loss_part = 0.0
        self._message: torch.Tensor | None = None
        self._sending: dist.Work | None = None
        self._carried: nn.Parameter | None = None
        self._buffers: list[tuple[torch.Tensor, torch.Tensor]] = []

    @property
    def samples(self) -> tuple[int, ...]:
        return self._share.indices[: self._share.counted]

    @property
    def loss(self) -> float:
        return self.word.loss if self.word is not None else float("nan")

    @property
    def applied(self) -> bool:
        """Whether the optimizers have used this step's gradients."""
        return bool(self._around.parts.applied)

    def __enter__(self) -> Any:
        self.entered = True
        around = self._around
        around.clock.begin(self._share.counted)
        seed_step(around.seed, self.number, around.membership.rank)
        around.parts.applied.clear()
        for model in around.parts.wrapped:
            model.begin_step()
        if self._size > 1:
            self._buffers = [(buffer, buffer.clone()) for buffer in around.parts.buffers]
        return None if around.micro_batch else self._fetch(self._share.indices)

    def parts(self) -> Iterator[Any]:
        """This worker's samples in batches of at most ``micro_batch``; gradients add up and are exchanged once."""
        left = len(self._share.indices)
        for chosen in micro_batches(self._share.indices, self._around.micro_batch):
            left -= len(chosen)
            self._is_last = not left
            self._in_hand = len(chosen) if self._share.counted else 0
            for model in self._around.parts.wrapped:
                model.sync_gradients(self._is_last)
            yield self._fetch(chosen)

    def backward(self, loss: torch.Tensor, *, report: torch.Tensor | None = None) -> None:
        """Backward pass of the mean loss of the samples in hand, weighted for the global batch.

        ``report`` is the loss to show where ``loss`` is something else, such as one scaled for mixed precision.
        """
        fraction = self._in_hand / self._share.of
        if fraction:
            self._loss_part += fraction * float((loss if report is None else report).detach())
        self._weighted(loss, fraction * self._size).backward()  # type: ignore[no-untyped-call]
        if self._is_last and self.word is None:
            self._read_word()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None and self.word is None:
            error = self._agree_late()
        if not is_lost(error):
            return False
        self._give_up(error)
        return True

    def _fetch(self, indices: Sequence[int]) -> Any:
        with self._around.clock.fetching(), marked(INPUT):
            return self._around.loader.fetch(indices)

    def _agree_late(self) -> BaseException | None:
        """A pass without :meth:`backward` must agree too, or the others would wait."""
        try:
            self._send_word()
            self._read_word()
        except RuntimeError as error:
            if not is_lost(error):
                raise
            return error
        return None

    def _weighted(self, loss: torch.Tensor, weight: float) -> torch.Tensor:
        """What to go backward from: the weighted loss, and the word as the gradient of its parameter, if there is one.

        That parameter is 0 for ever, so it adds nothing to the loss. DDP waits for its gradient in every exchange.
        """
        carrier = next((model.word for model in self._around.parts.wrapped), None) if self._is_last else None
        first = self._is_last and self._message is None
        if first and carrier is None:
            self._send_word()
        if carrier is None:
            return loss * weight
        word = torch.zeros(WORD_SIZE, dtype=torch.float32)
        if first:
            word = torch.tensor([self._loss_part, *self._around.wishes()], dtype=torch.float32)
            self._message, self._carried = word, carrier
        return torch.add(torch.dot(carrier, word.to(carrier, non_blocking=True)), loss, alpha=weight)

    def _send_word(self) -> None:
        self._message = torch.tensor([self._loss_part, *self._around.wishes()], dtype=torch.float64)
        if self._size > 1:
            self._sending = dist.all_reduce(self._message, async_op=True)

    def _read_word(self) -> None:
        loss, *said = self._sums()
        heard, suspend, save, finish, rollback = (round(one) for one in said)
        self.word = Word(
            loss=loss, switch=heard == self._size, suspend=suspend > 0, save=Wish(save), finish=finish > 0,
            rollback=rollback > 0,
        )  # fmt: skip
        self._around.clock.exchanged(self._size)

    def _sums(self) -> list[float]:
        """The words of all workers, added up. DDP has divided what it carried by their number."""
        assert self._message is not None
        if self._carried is not None:
            self._settle_device()
            assert self._carried.grad is not None
            mean, self._carried.grad = self._carried.grad, None
            return cast("list[float]", (mean.double() * self._size).tolist())
        if self._sending is not None:
            self._sending.wait()
            self._settle_device()
        return cast("list[float]", self._message.tolist())

    def _settle_device(self) -> None:
        """Wait until the gradients are really exchanged: on CUDA a dead peer shows as a kernel that never ends."""
        if self._around.parts.device.type != "cuda":
            return
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        deadline = time.monotonic() + self._around.membership.timeout_s
        while not event.query():  # type: ignore[no-untyped-call]
            if time.monotonic() > deadline:
                raise WorldLostError("the exchange of gradients did not end in time")
            time.sleep(_DEVICE_POLL_S)

    def _give_up(self, error: BaseException | None) -> None:
        """Undo what this attempt has touched, unless the optimizers are through: then the step counts."""
        self.lost = True
        self._sending = self._carried = None
        parts = self._around.parts
        _log.warning("step %d in a world of %d: a peer is gone (%s)", self.number, self._size, error)
        self._around.membership.close()
        if not parts.applied:
            with torch.no_grad():
                for buffer, before in self._buffers:
                    buffer.copy_(before)
        elif parts.applied != parts.optimizers.keys():
            raise InputError(
                "a peer was lost between the steps of two optimizers", "no communication between them",
                "Do all backward passes before the first optimizer.step()",
            ) from error  # fmt: skip
        parts.drop_gradients()
