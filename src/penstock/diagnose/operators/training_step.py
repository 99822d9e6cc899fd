"""One training step of a model, repeated exactly: same seed, same weights, same data."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch

from penstock.diagnose.operators.call import as_array
from penstock.diagnose.operators.reference.products import Array
from penstock.diagnose.operators.tracing import OperatorTrace, Phase
from penstock.diagnose.operators.updates import CheckedUpdates


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is compared between runs. Loss, gradients and buffers are of the first step: later ones depend on
    parameters that an optimizer may have moved by pure rounding, where a gradient is zero in theory.
    """

    loss: Array
    gradients: Array
    buffers: Array
    parameters: Array

    def distance(self, other: "Outcome", phase: Phase) -> float:
        """The largest relative distance of parts that a mistake in this phase can reach."""
        reached = ("parameters",) if phase is Phase.UPDATE else ("loss", "gradients", "buffers")
        return max(_apart(getattr(self, part), getattr(other, part)) for part in reached)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStep:
    """``build`` makes the model and a function that computes its loss; it is called anew for each run."""

    build: Callable[[], tuple[torch.nn.Module, Callable[[], torch.Tensor]]]
    optimizer: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer] | None = None
    clip: float | None = None
    steps: int = 1
    seed: int = 0

    def run(self, trace: OperatorTrace, updates: CheckedUpdates) -> Outcome:
        """All of it under ``trace``, which hears which phase it is."""
        torch.manual_seed(self.seed)
        model, loss_of = self.build()
        weights = [each for each in model.parameters() if each.requires_grad]
        optimizer = self.optimizer(weights) if self.optimizer and weights else None
        loss = self._step(model, loss_of, optimizer, weights, trace, updates)
        gradients = _joined(each.grad for each in weights if each.grad is not None)
        buffers = _joined(each for each in model.buffers() if each.is_floating_point())
        for _ in range(self.steps - 1):
            self._step(model, loss_of, optimizer, weights, trace, updates)
        return Outcome(loss=as_array(loss), gradients=gradients, buffers=buffers, parameters=_joined(weights))

    def _step(
        self, model: torch.nn.Module, loss_of: Callable[[], torch.Tensor], optimizer: torch.optim.Optimizer | None,
        weights: list[torch.nn.Parameter], trace: OperatorTrace, updates: CheckedUpdates,
    ) -> torch.Tensor:  # fmt: skip
        model.zero_grad()
        with trace:
            trace.phase = Phase.FORWARD
            loss = loss_of()
            trace.phase = Phase.BACKWARD
            if loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
            trace.phase = Phase.UPDATE
            if self.clip is not None:
                updates.clip(weights, self.clip)
            if optimizer is not None:
                updates.step(optimizer)
        return loss

    def plain(self) -> Outcome:
        """Without anybody watching."""
        return self.run(OperatorTrace(judging=False), CheckedUpdates())


def _joined(tensors: Iterable[torch.Tensor]) -> Array:
    parts = [as_array(each).reshape(-1) for each in tensors]
    return np.concatenate(parts) if parts else np.zeros(0)


def _apart(left: Array, right: Array) -> float:
    if not np.array_equal(np.isfinite(left), np.isfinite(right)):
        return math.inf
    size = float(np.linalg.norm(np.nan_to_num(right)))
    return float(np.linalg.norm(np.nan_to_num(left) - np.nan_to_num(right))) / (size + 1e-30)
