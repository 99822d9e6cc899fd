"""Which samples a step trains on, and which of them are mine.

The order of samples is a function of (seed, epoch) alone: step ``k`` of an epoch is ``permutation[k*B:(k+1)*B]`` for
any number of workers, so that a resize changes who computes, never what is computed. The last step of an epoch is
shorter if the batch does not divide the data; nothing is dropped. Data that knows a better permutation than a full one
(packed tokens, which are read in long stretches) brings its own.
"""

import random
from dataclasses import dataclass, field

import numpy as np
import torch

from penstock.core import InputError
from penstock.runtime.data.reading.windowed_order import EpochOrder, Samples, mixed


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One worker's part of a step. A worker without a sample of its own gets one of weight 0, to keep in step."""

    indices: tuple[int, ...]
    counted: int
    of: int


@dataclass(slots=True)
class FullPermutation:
    """Any sample may come at any place; the permutation of the present epoch is kept, 8 bytes for each sample."""

    samples: int
    seed: int
    _epoch: int = field(default=-1, init=False)
    _permutation: Samples = field(init=False, default_factory=lambda: np.arange(0))

    def stretch(self, epoch: int, start: int, stop: int) -> Samples:
        if epoch != self._epoch:
            self._permutation = np.random.default_rng((self.seed, epoch)).permutation(self.samples)
            self._epoch = epoch
        return self._permutation[start:stop]


@dataclass(frozen=True, slots=True)
class StoredOrder:
    """Samples as they lie."""

    samples: int

    def stretch(self, epoch: int, start: int, stop: int) -> Samples:
        del epoch
        return np.arange(start, min(stop, self.samples))


@dataclass(slots=True, kw_only=True)
class SampleOrder:
    """The samples of every step, for any world; ``order`` is that of the data itself, if it has one."""

    samples: int
    batch: int
    seed: int = 0
    shuffle: bool = True
    order: EpochOrder | None = None
    _epochs: EpochOrder = field(init=False)

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise InputError("the dataset is empty", "at least one sample", "Check where the data comes from")
        if self.batch < 1:
            raise InputError(f"global_batch={self.batch}", "at least 1", "Give the batch of all workers together")
        if self.shuffle:
            self._epochs = self.order or FullPermutation(self.samples, self.seed)
        else:
            self._epochs = StoredOrder(self.samples)

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.samples // self.batch)

    def epoch_of(self, step: int) -> int:
        return step // self.steps_per_epoch

    def indices(self, step: int) -> list[int]:
        """All samples of a step, in order."""
        epoch, start = self.place(step)
        chosen: list[int] = self._epochs.stretch(epoch, start, min(start + self.batch, self.samples)).tolist()
        return chosen

    def place(self, step: int) -> tuple[int, int]:
        """The epoch of a step, and the position of its first sample there."""
        epoch, within = divmod(step, self.steps_per_epoch)
        return epoch, within * self.batch

    def share(self, step: int, rank: int, size: int) -> Share:
        """A contiguous part of the step; parts differ by one sample at most."""
        everything = self.indices(step)
        count = len(everything)
        mine = everything[count * rank // size : count * (rank + 1) // size]
        return Share(indices=tuple(mine or everything[:1]), counted=len(mine), of=count)


def seed_step(seed: int, step: int, rank: int) -> None:
    """Make every draw of a step (dropout, noise) a function of (seed, step, rank): nothing to transfer or restore.

    A step that is done again after a failure draws the same numbers; a run resumed at the same width does too.
    """
    drawn = mixed(seed, step, rank)
    # Not torch.manual_seed: it asks every kind of device there could be, on every step.
    torch.default_generator.manual_seed(drawn >> 1)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed(drawn >> 1)
    random.seed(drawn)
    np.random.seed(drawn & 0xFFFFFFFF)
