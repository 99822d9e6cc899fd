"""Watches every call that a program makes of the operator library, forward and backward, and judges it.

The program is not changed: a dispatch mode lies below autograd, so gradients pass through it as forward calls do. Each
call is judged on its own inputs at once (its *local* error, which no earlier mistake can cause), and nothing but the
inputs of suspects is kept. What is *rebound* gets the reference's result in place of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from penstock.diagnose.operators.call import Call, Results, is_judged
from penstock.diagnose.operators.oracle import Judgement, Source, judge

EVERYTHING: Callable[[str], bool] = lambda _: True  # noqa: E731
NOTHING: Callable[[str], bool] = lambda _: False  # noqa: E731
_REPEATS = 2


class Phase(StrEnum):
    """Where in a training step a call is made."""

    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"


@dataclass(slots=True)
class Suspect:
    """An operator some of whose calls were wrong; ``call`` is the first of them."""

    operator: str
    kind: str
    phase: Phase
    number: int
    error: float
    source: Source
    call: Call | None = None
    calls: int = 1
    flaky: bool = False

    @property
    def key(self) -> str:
        return self.operator


@dataclass(slots=True)
class Coverage:
    """How many calls were judged, by whom, and why others were not."""

    by_source: dict[Source, int] = field(default_factory=lambda: dict.fromkeys(Source, 0))
    operators: set[str] = field(default_factory=set)
    unjudged: dict[str, str] = field(default_factory=dict)
    first_not_finite: str = ""
    """The first call that made NaN or infinity of numbers."""

    def note(self, call: Call, seen: Judgement) -> None:
        self.by_source[seen.source] += 1
        self.operators.add(call.name)
        if seen.source is Source.NOBODY:
            self.unjudged.setdefault(call.name, seen.why)


class OperatorTrace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Judges all calls made inside, and gives those of ``rebound`` operators the reference's results.

    Without ``judging`` only what is rebound is compared with its reference at all: a second run is cheap. Calls that
    an update makes are looked at only ``within_updates``: an update that is right as a whole needs no second look.
    """

    def __init__(
        self, rebound: Callable[[str], bool] = NOTHING, *, judging: bool = True, within_updates: bool = False
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase = Phase.FORWARD
        self.suspects: dict[str, Suspect] = {}
        self.coverage = Coverage()
        self.calls = 0
        self._rebound = rebound
        self._judging = judging
        self._within_updates = within_updates

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if not is_judged(func) or (self.phase is Phase.UPDATE and not self._within_updates):
            return func(*args, **named)
        call = Call.before(func, args, named)
        wanted = self._rebound(call.name)
        returned = func(*args, **named)
        if self._judging or wanted:
            self._look(call, call.results(returned, args, named), wanted)
        return returned

    def _look(self, call: Call, results: Results, rebound: bool) -> None:
        self.calls += 1
        seen = judge(call, results)
        self.coverage.note(call, seen)
        if seen.source is not Source.NOBODY and not self.coverage.first_not_finite and not _are_finite(results):
            self.coverage.first_not_finite = f"call {self.calls}, {call.name}, {self.phase}"
        if seen.wrong:
            self._suspect(call, results, seen)
        if rebound:
            _overwrite(results, seen)

    def _suspect(self, call: Call, results: Results, seen: Judgement) -> None:
        known = self.suspects.get(call.name)
        if known is not None:
            known.calls += 1
            known.error = max(known.error, seen.error)
            return
        self.suspects[call.name] = Suspect(
            operator=call.name, kind=call.kind, phase=self.phase, number=self.calls, error=seen.error,
            source=seen.source, call=call, flaky=is_flaky(call, results),
        )  # fmt: skip


def is_flaky(call: Call, results: Results) -> bool:
    """Whether the same inputs give something else: then it is not wrong by its nature but by chance."""
    if torch.Tag.nondeterministic_seeded in call.operator.tags:
        return False
    first = [None if tensor is None else tensor.detach().clone() for tensor in results]
    return any(not _same(first, call.again()) for _ in range(_REPEATS))


def _same(left: Results, right: Results) -> bool:
    pairs = ((a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None)
    return all(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in pairs)


def _are_finite(results: Results) -> bool:
    floats = (tensor for tensor in results if tensor is not None and tensor.is_floating_point())
    return not any(bool(torch.isnan(tensor).any() | torch.isposinf(tensor).any()) for tensor in floats)


def _overwrite(results: Results, seen: Judgement) -> None:
    for tensor, wanted in zip(results, seen.expected, strict=False):
        if tensor is None or wanted is None or not tensor.is_floating_point() or tuple(tensor.shape) != wanted.shape:
            continue
        tensor.detach().copy_(torch.from_numpy(np.array(wanted)))
