"""Functions that a device runs as one kernel although the meta device takes them apart.

While this mode is on, attention, RMS norm and dropout reach the recorder as the fused operations a GPU (or, for
attention, a CPU) would run, and under autocast every function gets its arguments in the dtype PyTorch would give it:
the meta device has no autocast of its own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.overrides import TorchFunctionMode

_aten = torch.ops.aten
_SDPA = functional.scaled_dot_product_attention

_LOW = frozenset([
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm", "addbmm", "einsum", "bilinear",
    "scaled_dot_product_attention",
])  # fmt: skip
_HIGH = frozenset([
    "softmax", "log_softmax", "layer_norm", "group_norm", "rms_norm", "nll_loss", "mse_loss", "l1_loss", "exp",
    "log", "log10", "log2", "log1p", "pow", "__pow__", "rsqrt", "reciprocal", "sum", "prod", "cumsum",
    "cumprod", "norm", "softplus", "cosine_similarity", "binary_cross_entropy_with_logits", "kl_div",
])  # fmt: skip
"""The lists of torch.autocast for CUDA; whatever is in neither runs in the widest dtype of its arguments."""


class FusedOperations(TorchFunctionMode):
    """Redirects what the meta device would decompose. ``autocast`` is the low dtype, or None."""

    def __init__(self, device: str, autocast: torch.dtype | None, norm: Callable[..., Tensor]) -> None:
        super().__init__()
        self._device = device
        self._autocast = autocast
        self._norm = norm

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._autocast is not None:
            args, kwargs = self._cast(func.__name__, args, kwargs)
        if func is _SDPA:
            return attention(self._device, *args, **kwargs)
        if func is functional.multi_head_attention_forward:
            with _attention_inside(self._device):
                return func(*args, **kwargs)
        if func is functional.cross_entropy and self._autocast is not None:
            return _cross_entropy(*args, **kwargs)
        if func is functional.dropout and self._device == "cuda":
            return _dropout(*args, **kwargs)
        if func is functional.rms_norm and self._device == "cuda":
            return self._norm(*args, **kwargs)
        return func(*args, **kwargs)

    def _cast(self, name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        low = self._autocast
        if name in _LOW:
            return _converted(args, low), _converted(kwargs, low)
        if name in _HIGH:
            return _converted(args, torch.float32), _converted(kwargs, torch.float32)
        return args, kwargs


@contextmanager
def _attention_inside(device: str) -> Iterator[None]:
    """For PyTorch's own multi-head attention: it is one function to this mode, which does not see inside it."""
    functional.scaled_dot_product_attention = partial(attention, device)
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = _SDPA


def _converted(values: Any, dtype: torch.dtype | None) -> Any:
    if isinstance(values, Tensor):
        return values.to(dtype) if values.is_floating_point() and values.dtype != torch.float64 else values
    if isinstance(values, tuple | list):
        return type(values)(_converted(value, dtype) for value in values)
    if isinstance(values, dict):
        return {key: _converted(value, dtype) for key, value in values.items()}
    return values


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:  # noqa: ARG001
    return torch.native_dropout(input, p, training)[0] if training and p else input


def attention(
    device: str, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Attention by the kernel PyTorch 2.11 chooses on a data-centre GPU.

    cuDNN's for half precision without a mask and heads of up to 128, flash for larger heads, else the efficient one.
    """
    if enable_gqa:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    if device == "cpu":
        return _attention_on_cpu(query, key, value, attn_mask, dropout_p, is_causal, scale)
    half = attn_mask is None and query.dtype in (torch.bfloat16, torch.float16) and query.shape[-1] % 8 == 0
    keep = query.requires_grad
    if half and query.shape[-1] <= 128:
        results = _aten._scaled_dot_product_cudnn_attention(
            query, key, value, None, keep, dropout_p, is_causal, scale=scale
        )
    elif half and query.shape[-1] <= 256:
        results = _aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)
    else:
        mask = attn_mask.expand(*query.shape[:3], key.shape[2]) if attn_mask is not None else None
        results = _aten._scaled_dot_product_efficient_attention(
            query, key, value, mask, keep, dropout_p, is_causal, scale=scale
        )
    return results[0]  # type: ignore[no-any-return]


def _attention_on_cpu(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, causal: bool, scale: float | None
) -> Tensor:
    """The flash kernel, which knows neither dropout nor a learned mask; else products and a softmax."""
    if dropout or (mask is not None and mask.requires_grad):
        return _aten._scaled_dot_product_attention_math(  # type: ignore[no-any-return]
            query, key, value, mask, dropout, causal, scale=scale
        )[0]
    return _aten._scaled_dot_product_flash_attention_for_cpu(  # type: ignore[no-any-return]
        query, key, value, dropout, causal, attn_mask=mask, scale=scale
    )[0]


def _cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, **kwargs: Any) -> Tensor:
    """Under autocast: log-probabilities in the dtype of the scores, their loss in single precision."""
    smoothing = kwargs.pop("label_smoothing", 0.0)
    if target.is_floating_point() or smoothing:
        return functional.cross_entropy(input, target, weight, label_smoothing=smoothing, **kwargs)
    scores = functional.log_softmax(input, 1, dtype=input.dtype).float()
    return functional.nll_loss(scores, target, weight, **kwargs)
