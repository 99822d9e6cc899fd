"""Results of operations that PyTorch cannot follow without running them: what they look like."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten


def _ctc(scores: Tensor, targets: Tensor, _: Any, said: Any, *rest: Any) -> tuple[Tensor, Tensor]:
    """A loss for every sample, and the chances of every prefix: twice the longest text and one, for every step."""
    del rest
    steps, batch, _letters = scores.shape
    longest = targets.shape[1] if targets.dim() > 1 else _longest(said, targets, batch)
    return scores.new_empty(batch), scores.new_empty(batch, steps, 2 * longest + 1)


def _longest(said: Any, targets: Tensor, batch: int) -> int:
    return max(said) if isinstance(said, Sequence) else max(1, targets.shape[0] // max(1, batch))


def _ctc_backward(_: Tensor, scores: Tensor, *rest: Any) -> Tensor:
    del rest
    return torch.empty_like(scores)


MISSING: dict[Any, Callable[..., Any]] = {
    _aten._ctc_loss.default: _ctc,
    _aten._ctc_loss.Tensor: _ctc,
    _aten._ctc_loss_backward.default: _ctc_backward,
    _aten._ctc_loss_backward.Tensor: _ctc_backward,
}
