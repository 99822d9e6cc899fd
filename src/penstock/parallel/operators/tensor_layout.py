"""How tensors lie on the devices of a stage, and which collective turns one layout into another.

An operator's input or output is split over data-parallel replicas along one axis and over tensor-parallel ranks along
another axis, or replicated over them. The rules and their order are Aceso's (its cost model, digest section 2.1);
they look at one change only, even where two happen at once.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cache

AXES = 3


class Collective(IntEnum):
    """What moves the data; ``SPLIT`` is a local slice and free."""

    ALL_GATHER = 0
    ALL_REDUCE = 1
    REDUCE_SCATTER = 2
    ALL_TO_ALL = 3
    SPLIT = 4

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """Samples split along axis ``dp_axis``; tensors along ``tp_axis``, or replicated if that is None."""

    dp_axis: int
    tp_axis: int | None = None

    def counts(self, tp: int, dp: int) -> tuple[int, tuple[int, ...]]:
        """(replicas, pieces along every axis)."""
        pieces = [1] * AXES
        pieces[self.dp_axis] = dp
        if self.tp_axis is None:
            return tp, tuple(pieces)
        pieces[self.tp_axis] = tp
        return 1, tuple(pieces)


@dataclass(frozen=True, slots=True)
class Reshard:
    """The collectives of the forward and the backward pass, over groups of ``group`` devices."""

    forward: Collective
    backward: Collective
    group: int


@cache
def reshard(
    given: TensorLayout | None,
    given_degrees: tuple[int, int],
    wanted: TensorLayout | None,
    wanted_degrees: tuple[int, int],
) -> Reshard | None:
    """What turns ``given`` at (tp, dp) into ``wanted`` at (tp, dp); None if nothing has to move.

    No layout at all, as at an end of the chain, fits every other.
    """
    if given is None or wanted is None:
        return None
    had, have = given.counts(*given_degrees)
    need, want = wanted.counts(*wanted_degrees)
    if (had, have) == (need, want):
        return None
    if had > need:
        return Reshard(Collective.SPLIT, Collective.ALL_GATHER, had // need)
    merged = next(axis for axis in range(AXES) if have[axis] > want[axis])
    group = have[merged] // want[merged]
    if had < need:
        return Reshard(Collective.ALL_GATHER, Collective.SPLIT, group)
    return Reshard(Collective.ALL_TO_ALL, Collective.ALL_TO_ALL, group)
