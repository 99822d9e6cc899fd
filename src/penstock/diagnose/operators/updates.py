"""Steps of optimizers and the clipping of gradients as operators: state before, state after, reference beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from penstock.diagnose.operators.call import as_array
from penstock.diagnose.operators.reference import updates
from penstock.diagnose.operators.reference.products import Array
from penstock.diagnose.operators.tolerance import ROUNDINGS, excess

_REFERENCES: dict[str, Callable[..., Any]] = {"SGD": updates.sgd, "Adam": updates.adam, "AdamW": updates.adamw}
_CHAIN = 16
"""Roundings one after the other in an update, as the length of a sum."""


@dataclass(slots=True)
class CheckedUpdates:
    """Runs updates and compares them; with ``rebound`` names, what is left behind is the reference's.

    ``unjudged`` says why an update could not be compared as a whole.
    """

    rebound: Callable[[str], bool] = lambda _: False
    errors: dict[str, float] = field(default_factory=dict)
    unjudged: str = ""

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """One step; optimizers without a reference are run and not judged."""
        name = type(optimizer).__name__
        reference = _REFERENCES.get(name)
        if reference is None:
            self.unjudged = f"there is no reference for {name}"
            optimizer.step()
            return
        before = [_Snapshot.of(optimizer, group, each) for group in optimizer.param_groups for each in group["params"]]
        optimizer.step()
        for snapshot in before:
            if snapshot.grad is not None:
                with np.errstate(all="ignore"):
                    value, state = snapshot.after(reference, snapshot.group)
                    other_value, other_state = snapshot.after(reference, updates.in_single(snapshot.group))
                self._compare(f"{name} update", snapshot.parameter, value, other_value)
                for key, wanted in state.items():
                    found = optimizer.state[snapshot.parameter][key]
                    self._compare(f"{name} update", found, wanted, other_state[key])

    def clip(self, parameters: Sequence[Tensor], most: float) -> None:
        grads = [each.grad for each in parameters if each.grad is not None]
        before = [as_array(each) for each in grads]
        torch.nn.utils.clip_grad_norm_(parameters, most)
        wanted, _ = updates.clipped(before, most)
        for grad, array in zip(grads, wanted, strict=True):
            self._compare("gradient clipping", grad, array)

    def _compare(self, name: str, tensor: Tensor, *answers: Array) -> None:
        """With every answer that is right; the first is what is left behind where it is rebound."""
        if tensor.dtype is torch.float16:
            self.unjudged = "squares of gradients do not fit into float16"
            return
        rounding = ROUNDINGS[str(tensor.dtype).removeprefix("torch.")]
        error = min(excess(as_array(tensor), wanted, rounding, length=_CHAIN) for wanted in answers)
        self.errors[name] = max(self.errors.get(name, 0.0), error)
        if self.rebound(name):
            with torch.no_grad():
                tensor.copy_(torch.from_numpy(np.array(answers[0])))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """A parameter before the step, with all that the step depends on."""

    parameter: Tensor
    value: Array
    grad: Array | None
    state: dict[str, Array]
    group: dict[str, Any]

    def after(self, reference: Callable[..., Any], group: dict[str, Any]) -> tuple[Array, dict[str, Array]]:
        found: tuple[Array, dict[str, Array]] = reference(self.value, self.grad, self.state, group)
        return found

    @classmethod
    def of(cls, optimizer: torch.optim.Optimizer, group: dict[str, Any], parameter: Tensor) -> "_Snapshot":
        state = {key: as_array(value) for key, value in optimizer.state[parameter].items() if isinstance(value, Tensor)}
        plain = {key: float(value) if isinstance(value, Tensor) else value for key, value in group.items()}
        grad = None if parameter.grad is None else as_array(parameter.grad)
        return cls(parameter=parameter, value=as_array(parameter), grad=grad, state=state, group=plain)
