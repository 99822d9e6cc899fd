"""Steps of optimizers and clipping on a device, held against references for several steps."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from penstock.diagnose.operators.suite.case import numbers
from penstock.diagnose.operators.updates import CheckedUpdates

_STEPS = 3
_SHAPES = ((7, 33), (65,), (1,))
_WAYS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.01}),
    "momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "nesterov": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "adam": (torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.01}),
    "adamw": (torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.1}),
    "amsgrad": (torch.optim.AdamW, {"lr": 1e-2, "amsgrad": True}),
}


def update_errors(device: str) -> Iterator[tuple[str, float]]:
    """Each optimizer one parameter at a time and, where it can, for all at once or in one kernel."""
    for name, (kind, settings) in _WAYS.items():
        for way in ({"foreach": False}, {"foreach": True}, {"fused": True}):
            flags = ", ".join(flag for flag, on in way.items() if on) or "one by one"
            yield f"{name} ({flags})", _error(kind, {**settings, **way}, device)
    yield "gradient clipping", _clipping_error(device)


def _error(kind: type[torch.optim.Optimizer], settings: dict[str, Any], device: str) -> float:
    weights = _weights(device)
    optimizer: Any = kind(weights, **settings)
    checked = CheckedUpdates()
    for step in range(_STEPS):
        _give_gradients(weights, step)
        checked.step(optimizer)
    return max(checked.errors.values())


def _clipping_error(device: str) -> float:
    weights, checked = _weights(device), CheckedUpdates()
    for most in (0.5, 1e3):
        _give_gradients(weights, 0)
        checked.clip(weights, most)
    return max(checked.errors.values())


def _weights(device: str) -> list[torch.nn.Parameter]:
    arrays = (numbers(seed, *shape).astype(np.float32) for seed, shape in enumerate(_SHAPES))
    return [torch.nn.Parameter(torch.from_numpy(array).to(device)) for array in arrays]


def _give_gradients(weights: list[torch.nn.Parameter], step: int) -> None:
    for seed, weight in enumerate(weights):
        array = numbers(100 * (step + 1) + seed, *weight.shape).astype(np.float32)
        weight.grad = torch.from_numpy(array).to(weight.device)
