"""Which samples a step trains on, and which of them are mine.

The order of samples is a function of (seed, epoch) alone: step ``k`` of an epoch is ``permutation[k*B:(k+1)*B]`` for
any number of workers, so that a resize changes who computes, never what is computed. The last step of an epoch is
shorter if the batch does not divide the data; nothing is dropped.
"""

import random
from dataclasses import dataclass, field

import numpy as np
import torch

from penstock.core import InputError

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One worker's part of a step. A worker without a sample of its own gets one of weight 0, to keep in step."""

    indices: tuple[int, ...]
    counted: int
    of: int


@dataclass(slots=True, kw_only=True)
class SampleOrder:
    """The samples of every step, for any world."""

    samples: int
    batch: int
    seed: int = 0
    shuffle: bool = True
    _epoch: int = field(default=-1, init=False)
    _permutation: "np.ndarray[tuple[int], np.dtype[np.int64]]" = field(init=False, default_factory=lambda: np.arange(0))

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise InputError("the dataset is empty", "at least one sample", "Check where the data comes from")
        if self.batch < 1:
            raise InputError(f"global_batch={self.batch}", "at least 1", "Give the batch of all workers together")

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.samples // self.batch)

    def epoch_of(self, step: int) -> int:
        return step // self.steps_per_epoch

    def indices(self, step: int) -> list[int]:
        """All samples of a step, in order."""
        epoch, within = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._permutation, self._epoch = self._permute(epoch), epoch
        start = within * self.batch
        chosen: list[int] = self._permutation[start : start + self.batch].tolist()
        return chosen

    def share(self, step: int, rank: int, size: int) -> Share:
        """A contiguous part of the step; parts differ by one sample at most."""
        everything = self.indices(step)
        count = len(everything)
        mine = everything[count * rank // size : count * (rank + 1) // size]
        return Share(indices=tuple(mine or everything[:1]), counted=len(mine), of=count)

    def _permute(self, epoch: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        if not self.shuffle:
            return np.arange(self.samples)
        return np.random.default_rng((self.seed, epoch)).permutation(self.samples)


def seed_step(seed: int, step: int, rank: int) -> None:
    """Make every draw of a step (dropout, noise) a function of (seed, step, rank): nothing to transfer or restore.

    A step that is done again after a failure draws the same numbers; a run resumed at the same width does too.
    """
    mixed = _mix(_mix(_mix(seed) + step) + rank)
    # Not torch.manual_seed: it asks every kind of device there could be, on every step.
    torch.default_generator.manual_seed(mixed >> 1)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed(mixed >> 1)
    random.seed(mixed)
    np.random.seed(mixed & 0xFFFFFFFF)


def _mix(value: int) -> int:
    """SplitMix64: neighbouring numbers in, unrelated ones out."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
