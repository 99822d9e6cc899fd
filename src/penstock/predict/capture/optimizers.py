"""Optimizers by the names people give them, each as PyTorch runs it on a GPU unless it is told otherwise.

Where PyTorch has a choice it goes over lists of tensors there (``foreach``); ``adamw`` is the one fused kernel that a
script has to ask for, ``adamw-foreach`` what it gets if it does not.
"""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Steps(Protocol):
    """What an iteration needs of an optimizer."""

    @property
    def state(self) -> Any: ...
    def step(self) -> Any: ...
    def zero_grad(self) -> None: ...


class Lion(torch.optim.Optimizer):
    """The sign of a momentum (Chen et al., "Symbolic discovery of optimization algorithms", 2023), over lists."""

    def __init__(self, weights: Iterable[Tensor], lr: float = 1e-4, decay: float = 1e-2) -> None:
        super().__init__(weights, {"lr": lr, "decay": decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            gradients = [weight.grad for weight in weights]
            momenta = [self._momentum(weight) for weight in weights]
            torch._foreach_mul_(weights, 1 - group["lr"] * group["decay"])
            signs = torch._foreach_sign(torch._foreach_lerp(momenta, gradients, 0.1))
            torch._foreach_add_(weights, signs, alpha=-group["lr"])
            torch._foreach_lerp_(momenta, gradients, 0.01)

    def _momentum(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(weight)
        return state["momentum"]  # type: ignore[no-any-return]


class Several:
    """Different optimizers for different weights, stepped one after another."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self.parts = parts

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad()

    @property
    def state(self) -> dict[Any, Any]:
        return dict(chain.from_iterable(part.state.items() for part in self.parts))


def _muon(weights: list[nn.Parameter]) -> Steps:
    """Matrices by Muon, everything else by AdamW, as its authors advise."""
    matrices, others = [w for w in weights if w.dim() == 2], [w for w in weights if w.dim() != 2]
    parts: list[torch.optim.Optimizer] = [torch.optim.Muon(matrices, lr=1e-4)] if matrices else []
    return Several(*parts, *([torch.optim.AdamW(others, lr=1e-5, foreach=True)] if others else []))


OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], Steps]] = {
    "sgd": lambda weights: torch.optim.SGD(weights, lr=1e-4, momentum=0.9, weight_decay=1e-4, foreach=True),
    "sgd-plain": lambda weights: torch.optim.SGD(weights, lr=1e-4, foreach=True),
    "adamw": lambda weights: torch.optim.AdamW(weights, lr=1e-5, fused=True),
    "adamw-foreach": lambda weights: torch.optim.AdamW(weights, lr=1e-5, foreach=True),
    "adam": lambda weights: torch.optim.Adam(weights, lr=1e-5, foreach=True),
    "rmsprop": lambda weights: torch.optim.RMSprop(weights, lr=1e-5, foreach=True),
    "adagrad": lambda weights: torch.optim.Adagrad(weights, lr=1e-5, foreach=True),
    "adafactor": lambda weights: torch.optim.Adafactor(weights, lr=1e-5, foreach=True),
    "lion": Lion,
    "muon": _muon,
}
