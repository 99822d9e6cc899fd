"""A reference as it answers for one operator of the library."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Expected = Sequence[NDArray[Any] | None]
"""What a call should give, in the order of its results and then of what it changes; nothing where nobody can say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """``reference`` takes the call's own arguments, tensors as arrays, and ``given`` ones by name: results of the call
    that only it can know, by their position. ``changes`` are positions of arguments that the call writes to without
    its schema saying so, ``unread`` ones that the reference does without. ``length`` is that of its longest sum.
    """

    kind: str
    reference: Callable[..., Expected]
    length: Callable[..., int] | None = None
    changes: tuple[int, ...] = ()
    given: tuple[tuple[str, int], ...] = ()
    unread: tuple[int, ...] = ()
