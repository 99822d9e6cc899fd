"""Calls of fused attention. Each kernel has a signature of its own; all of them are one operator.

Dropout inside of a fused kernel hides its mask, so such calls are not judged.
"""

from typing import Any

import numpy as np

from penstock.diagnose.operators.kernels.kernel import Expected, Kernel
from penstock.diagnose.operators.reference.attention import (
    AttentionShape,
    attention,
    attention_backward,
    bias_of,
    log_sum_exp,
)
from penstock.diagnose.operators.reference.products import Array


def _shape(causal: bool, mask: Any, scale: float | None) -> AttentionShape:
    return AttentionShape(causal=causal, scale=scale, bias=bias_of(mask))


def _cpu(
    query: Array, key: Array, value: Array, drop: float = 0.0, causal: bool = False, *, attn_mask: Any = None,
    scale: float | None = None,
) -> Expected:  # fmt: skip
    if drop:
        return None, None
    shape = _shape(causal, attn_mask, scale)
    return attention(query, key, value, shape), log_sum_exp(query, key, shape)


def _cpu_backward(
    grad: Array, query: Array, key: Array, value: Array, _out: Array, _sums: Array, drop: float, causal: bool, *,
    attn_mask: Any = None, scale: float | None = None,
) -> Expected:  # fmt: skip
    if drop:
        return None, None, None
    return attention_backward(grad, query, key, value, _shape(causal, attn_mask, scale))


def _flash(
    query: Array, key: Array, value: Array, drop: float = 0.0, causal: bool = False, _masked: bool = False, *,
    scale: float | None = None,
) -> Expected:  # fmt: skip
    return (None if drop else attention(query, key, value, _shape(causal, None, scale)),)


def _flash_backward(
    grad: Array, query: Array, key: Array, value: Array, _out: Array, _sums: Array, _cum_q: Any, _cum_k: Any,
    _max_q: Any, _max_k: Any, drop: float, causal: bool, *_: Any, scale: float | None = None,
) -> Expected:  # fmt: skip
    if drop:
        return None, None, None
    return attention_backward(grad, query, key, value, _shape(causal, None, scale))


def _efficient(
    query: Array, key: Array, value: Array, bias: Any, _sums: bool, drop: float = 0.0, causal: bool = False, *,
    scale: float | None = None,
) -> Expected:  # fmt: skip
    return (None if drop else attention(query, key, value, _shape(causal, bias, scale)),)


def _efficient_backward(
    grad: Array, query: Array, key: Array, value: Array, bias: Any, _out: Array, _sums: Array, _seed: Any, _offset: Any,
    drop: float, _wanted: Any, causal: bool = False, *, scale: float | None = None,
) -> Expected:  # fmt: skip
    if drop:
        return None, None, None
    return attention_backward(grad, query, key, value, _shape(causal, bias, scale))


def _cudnn(
    query: Array, key: Array, value: Array, bias: Any, _sums: bool, drop: float = 0.0, causal: bool = False,
    _masked: bool = False, *, scale: float | None = None,
) -> Expected:  # fmt: skip
    return (None if drop else attention(query, key, value, _shape(causal, bias, scale)),)


def _cudnn_backward(
    grad: Array, query: Array, key: Array, value: Array, _out: Array, _sums: Array, _seed: Any, _offset: Any, bias: Any,
    _cum_q: Any, _cum_k: Any, _max_q: Any, _max_k: Any, drop: float, causal: bool, *, scale: float | None = None,
) -> Expected:  # fmt: skip
    if drop:
        return None, None, None
    return attention_backward(grad, query, key, value, _shape(causal, bias, scale))


def _keys(_query: Array, key: Array, *_: Any, **__: Any) -> int:
    return int(np.prod(key.shape[-2:]))


def _keys_backward(_grad: Array, query: Array, key: Array, *_: Any, **__: Any) -> int:
    return int(max(query.shape[-2], key.shape[-2]) * query.shape[-1])


def _pair(name: str, forward: Any, backward: Any, *, sums: int = 5) -> dict[str, Kernel]:
    """``sums`` is where the backward pass is given what the forward pass summed, padded with infinities at times."""
    return {
        name: Kernel(kind="attention", reference=forward, length=_keys),
        f"{name}_backward": Kernel(kind="attention", reference=backward, length=_keys_backward, unread=(sums,)),
    }


ATTENTION = {
    **_pair("_scaled_dot_product_flash_attention_for_cpu", _cpu, _cpu_backward),
    **_pair("_scaled_dot_product_flash_attention", _flash, _flash_backward),
    **_pair("_scaled_dot_product_efficient_attention", _efficient, _efficient_backward, sums=6),
    **_pair("_scaled_dot_product_cudnn_attention", _cudnn, _cudnn_backward),
}
