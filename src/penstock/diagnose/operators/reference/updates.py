"""What optimizers do to one parameter and its state in one step; clipping of gradients."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.diagnose.operators.reference.products import Array

State = Mapping[str, Array]


def sgd(value: Array, grad: Array, state: State, group: Mapping[str, Any]) -> tuple[Array, dict[str, Array]]:
    """With momentum, Nesterov's or not; the first step's buffer is the gradient itself, without dampening."""
    grad = _signed(grad, group) + group["weight_decay"] * value
    if not group["momentum"]:
        return value - group["lr"] * grad, {}
    before = state.get("momentum_buffer")
    kept = grad if before is None else group["momentum"] * before + (1 - group["dampening"]) * grad
    step = grad + group["momentum"] * kept if group["nesterov"] else kept
    return value - group["lr"] * step, {"momentum_buffer": kept}


def adam(value: Array, grad: Array, state: State, group: Mapping[str, Any]) -> tuple[Array, dict[str, Array]]:
    """Weight decay is part of the gradient; epsilon is added outside of the root, after bias correction."""
    return _adam(value, _signed(grad, group) + group["weight_decay"] * value, state, group)


def adamw(value: Array, grad: Array, state: State, group: Mapping[str, Any]) -> tuple[Array, dict[str, Array]]:
    """Weight decay shrinks the parameter by itself."""
    return _adam(value * (1 - group["lr"] * group["weight_decay"]), _signed(grad, group), state, group)


def in_single(group: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings for a kernel that holds its betas in float32, as PyTorch's fused Adam on CUDA does.

    1 - 0.999 is then off by 1.3e-5, 216 roundings: more than sums and roots explain, and no mistake.
    """
    return {**group, "moment_betas": tuple(float(np.float32(beta)) for beta in group.get("betas", ()))}


def _adam(value: Array, grad: Array, state: State, group: Mapping[str, Any]) -> tuple[Array, dict[str, Array]]:
    """Bias is corrected by the betas, moments may be taken by ``moment_betas``."""
    first, second = (float(beta) for beta in group["betas"])
    of_mean, of_square = group.get("moment_betas", (first, second))
    step = float(state.get("step", np.asarray(0.0))) + 1
    mean = of_mean * state.get("exp_avg", np.zeros_like(value)) + (1 - of_mean) * grad
    square = of_square * state.get("exp_avg_sq", np.zeros_like(value)) + (1 - of_square) * grad * grad
    kept = {"step": np.asarray(step), "exp_avg": mean, "exp_avg_sq": square}
    largest = square
    if group["amsgrad"]:
        largest = np.maximum(state.get("max_exp_avg_sq", np.zeros_like(value)), square)
        kept["max_exp_avg_sq"] = largest
    root = np.sqrt(largest) / math.sqrt(1 - second**step)
    return value - group["lr"] / (1 - first**step) * mean / (root + group["eps"]), kept


def clipped(grads: Sequence[Array], most: float) -> tuple[list[Array], float]:
    """All gradients scaled together so that their common norm is ``most``; and the norm there was."""
    norm = math.sqrt(sum(float((grad * grad).sum()) for grad in grads))
    scale = min(1.0, most / (norm + 1e-6))
    return [grad * scale for grad in grads], norm


def _signed(grad: Array, group: Mapping[str, Any]) -> Array:
    return -grad if group.get("maximize") else grad
