"""Cases of softmaxes, losses, lookups, activations, attention and sums."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from penstock.diagnose.operators.reference import attention as attention_reference
from penstock.diagnose.operators.reference import losses, pointwise
from penstock.diagnose.operators.reference.attention import AttentionShape
from penstock.diagnose.operators.reference.products import Array
from penstock.diagnose.operators.suite.case import Answer, Arrays, Case, indices, numbers

_DEVIATIONS = 5.0
"""How many standard deviations the share of dropped values may be off."""


def loss_cases() -> Iterator[Case]:
    import torch.nn.functional as F  # noqa: N812

    yield _pointwise("softmax", lambda x: F.softmax(x, -1), lambda x: losses.softmax(x, -1),
                     lambda g, x: losses.softmax_backward(g, losses.softmax(x, -1), -1),
                     length=65, scale=4.0)  # fmt: skip
    yield _pointwise("log_softmax", lambda x: F.log_softmax(x, 0), lambda x: losses.log_softmax(x, 0),
                     lambda g, x: losses.log_softmax_backward(g, losses.log_softmax(x, 0), 0),
                     length=9, scale=4.0)  # fmt: skip
    yield _cross_entropy(0.0)
    yield _cross_entropy(0.1)
    yield _embedding()


def activation_cases() -> Iterator[Case]:
    import torch
    import torch.nn.functional as F  # noqa: N812

    yield _pointwise("gelu", F.gelu, pointwise.gelu, pointwise.gelu_backward, scale=3.0)
    yield _pointwise("gelu", lambda x: F.gelu(x, approximate="tanh"), lambda x: pointwise.gelu(x, tanh=True),
                     lambda g, x: pointwise.gelu_backward(g, x, tanh=True), variant="tanh", scale=3.0)  # fmt: skip
    yield _pointwise("silu", F.silu, pointwise.silu, pointwise.silu_backward, scale=3.0)
    yield _pointwise("relu", F.relu, lambda x: np.maximum(x, 0), lambda g, x: g * (x > 0))
    yield _pointwise("sigmoid", torch.sigmoid, pointwise.sigmoid,
                     lambda g, x: g * pointwise.sigmoid(x) * pointwise.sigmoid(-x), scale=5.0)  # fmt: skip
    yield _pointwise("tanh", torch.tanh, np.tanh, lambda g, x: g / np.cosh(x) ** 2)
    yield _pointwise("exp", torch.exp, np.exp, lambda g, x: g * np.exp(x))
    yield _pointwise("sum", lambda x: x.sum(0), lambda x: x.sum(0), lambda g, x: np.broadcast_to(g, x.shape),
                     length=9, out=(65,))  # fmt: skip
    yield _pointwise("mean", lambda x: x.mean(-1), lambda x: x.mean(-1),
                     lambda g, x: np.broadcast_to(g[:, None] / 65, x.shape), length=65, out=(9,))  # fmt: skip
    yield _pointwise("cumsum", lambda x: x.cumsum(-1), lambda x: x.cumsum(-1),
                     lambda g, _: np.flip(np.flip(g, -1).cumsum(-1), -1), length=65)  # fmt: skip
    yield _dropout()


def attention_cases() -> Iterator[Case]:
    lengths = np.array([5, 17, 9])
    visible = np.arange(17)[None, :] < lengths[:, None]
    yield _attention("")
    yield _attention("causal", causal=True)
    yield _attention("variable length", mask=np.broadcast_to(visible[:, None, None, :], (3, 1, 17, 17)))
    yield _attention("added bias", mask=numbers(9, 17, 17))
    yield _attention("grouped queries", key_heads=2)


def _pointwise(
    operator: str, compute: Callable[[Any], Any], forward: Callable[[Array], Array],
    backward: Callable[[Array, Array], Array], *, variant: str = "", length: int = 1, scale: float = 1.0,
    out: tuple[int, ...] = (9, 65),
) -> Case:  # fmt: skip
    def reference(x: Arrays, grad: Array, _: Any) -> Answer:
        return (forward(x["x"]),), {"x": backward(grad, x["x"])}

    return Case(
        operator=operator, variant=variant, inputs={"x": numbers(1, 9, 65, scale=scale)},
        compute=lambda x: (compute(x["x"]),), reference=reference, upstream=numbers(2, *out), length=length,
    )  # fmt: skip


def _cross_entropy(smoothing: float) -> Case:
    import torch
    import torch.nn.functional as F  # noqa: N812

    target = indices(3, 33, 11, 4)
    target[2, 1] = -100

    def compute(x: Any) -> Any:
        wanted = torch.from_numpy(target).to(x["x"].device)
        return (F.cross_entropy(x["x"], wanted, label_smoothing=smoothing),)

    def reference(x: Arrays, grad: Array, _: Any) -> Answer:
        out = losses.cross_entropy(x["x"], target, smoothing=smoothing)
        return (out,), {"x": losses.cross_entropy_backward(grad, x["x"], target, smoothing=smoothing)}

    return Case(
        operator="cross_entropy", variant=f"smoothing {smoothing}" if smoothing else "",
        inputs={"x": numbers(1, 11, 33, 4, scale=3.0)}, compute=compute, reference=reference,
        upstream=np.asarray(1.0), length=44,
    )  # fmt: skip


def _embedding() -> Case:
    import torch
    import torch.nn.functional as F  # noqa: N812

    words = indices(3, 29, 6, 15)

    def compute(x: Any) -> Any:
        return (F.embedding(torch.from_numpy(words).to(x["table"].device), x["table"], padding_idx=4),)

    def reference(x: Arrays, grad: Array, _: Any) -> Answer:
        return (x["table"][words],), {"table": pointwise.embedding_backward(grad, words, 29, 4)}

    return Case(
        operator="embedding", inputs={"table": numbers(1, 29, 17)}, compute=compute, reference=reference,
        upstream=numbers(2, 6, 15, 17), length=90,
    )  # fmt: skip


def _dropout() -> Case:
    """Which values go is the device's business; how many, and what becomes of the others, is not."""
    import torch.nn.functional as F  # noqa: N812

    share, count = 0.3, 41 * 97

    def reference(x: Arrays, grad: Array, actual: Any) -> Answer:
        mask = actual[0] != 0
        far = abs(float(mask.mean()) - (1 - share)) > _DEVIATIONS * np.sqrt(share * (1 - share) / count)
        out = pointwise.dropout(x["x"], mask & ~far, 1 - share)
        return (out,), {"x": pointwise.dropout(grad, mask, 1 - share)}

    return Case(
        operator="dropout", inputs={"x": numbers(1, 41, 97) + 8.0}, compute=lambda x: (F.dropout(x["x"], share),),
        reference=reference, upstream=numbers(2, 41, 97),
    )  # fmt: skip


def _attention(variant: str, *, causal: bool = False, mask: Any = None, key_heads: int = 4) -> Case:
    import torch
    import torch.nn.functional as F  # noqa: N812

    query = (3, 4, 17, 16)
    key = (3, key_heads, 17, 16)
    shape = AttentionShape(causal=causal, bias=attention_reference.bias_of(mask))

    def compute(x: Any) -> Any:
        q = x["query"]
        seen = None if mask is None else torch.from_numpy(np.array(mask)).to(q.device)
        seen = seen.to(q.dtype) if seen is not None and seen.dtype is not torch.bool else seen
        return (
            F.scaled_dot_product_attention(
                q, x["key"], x["value"], attn_mask=seen, is_causal=causal, enable_gqa=key_heads != query[1]
            ),
        )

    def reference(x: Arrays, grad: Array, _: Any) -> Answer:
        qkv = x["query"], x["key"], x["value"]
        grads = attention_reference.attention_backward(grad, *qkv, shape)
        return (attention_reference.attention(*qkv, shape),), dict(zip(("query", "key", "value"), grads, strict=True))

    return Case(
        operator="attention", variant=variant,
        inputs={"query": numbers(1, *query), "key": numbers(2, *key), "value": numbers(3, *key)}, compute=compute,
        reference=reference, upstream=numbers(4, *query), length=272, coarse=True,
    )  # fmt: skip
