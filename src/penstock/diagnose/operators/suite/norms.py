"""Cases of norms, with running statistics."""

from collections.abc import Iterator
from typing import Any

from penstock.diagnose.operators.reference import norms
from penstock.diagnose.operators.reference.norms import RunningStatistics
from penstock.diagnose.operators.reference.products import Array
from penstock.diagnose.operators.suite.case import Answer, Arrays, Case, numbers

_EPS = 1e-5
_MOMENTUM = 0.1


def norm_cases() -> Iterator[Case]:
    yield _layer_norm("", numbers(1, 5, 3, 33))
    yield _layer_norm("small deviation", 3.0 + numbers(1, 5, 33, scale=1e-2))
    yield _rms_norm()
    yield _group_norm()
    yield _batch_norm(training=True)
    yield _batch_norm(training=False)


def _layer_norm(variant: str, x: Array) -> Case:
    import torch.nn.functional as F  # noqa: N812

    width = x.shape[-1]

    def reference(x: Arrays, grad: Array, _: Any) -> Answer:
        seen = norms.layer_norm(x["x"], 1, x["weight"], x["bias"], _EPS)
        grads = norms.layer_norm_backward(grad, x["x"], 1, seen.mean, seen.rstd, x["weight"])
        return (seen.out,), dict(zip(("x", "weight", "bias"), grads, strict=True))

    return Case(
        operator="layer_norm", variant=variant, inputs={"x": x, "weight": numbers(2, width), "bias": numbers(3, width)},
        compute=lambda x: (F.layer_norm(x["x"], (width,), x["weight"], x["bias"], _EPS),), reference=reference,
        upstream=numbers(4, *x.shape), length=width,
    )  # fmt: skip


def _rms_norm() -> Case:
    import torch.nn.functional as F  # noqa: N812

    def reference(x: Arrays, grad: Array, _: Any) -> Answer:
        seen = norms.rms_norm(x["x"], 1, x["weight"], _EPS)
        grads = norms.rms_norm_backward(grad, x["x"], 1, seen.rstd, x["weight"])
        return (seen.out,), dict(zip(("x", "weight"), grads, strict=True))

    return Case(
        operator="rms_norm", inputs={"x": numbers(1, 7, 65), "weight": numbers(2, 65)},
        compute=lambda x: (F.rms_norm(x["x"], (65,), x["weight"], _EPS),), reference=reference,
        upstream=numbers(3, 7, 65), length=65,
    )  # fmt: skip


def _group_norm() -> Case:
    import torch.nn.functional as F  # noqa: N812

    def reference(x: Arrays, grad: Array, _: Any) -> Answer:
        seen = norms.group_norm(x["x"], 3, x["weight"], x["bias"], _EPS)
        grads = norms.group_norm_backward(grad, x["x"], 3, seen.mean, seen.rstd, x["weight"])
        return (seen.out,), dict(zip(("x", "weight", "bias"), grads, strict=True))

    return Case(
        operator="group_norm", inputs={"x": numbers(1, 4, 6, 5, 7), "weight": numbers(2, 6), "bias": numbers(3, 6)},
        compute=lambda x: (F.group_norm(x["x"], 3, x["weight"], x["bias"], _EPS),), reference=reference,
        upstream=numbers(4, 4, 6, 5, 7), length=140,
    )  # fmt: skip


def _batch_norm(*, training: bool) -> Case:
    """In training it answers with its running statistics as well."""
    import torch.nn.functional as F  # noqa: N812

    def compute(x: Any) -> Any:
        mean, variance = x["mean"].detach().clone(), x["variance"].detach().clone()
        out = F.batch_norm(x["x"], mean, variance, x["weight"], x["bias"], training, _MOMENTUM, _EPS)
        return out, mean, variance

    def reference(x: Arrays, grad: Array, _: Any) -> Answer:
        before = RunningStatistics(mean=x["mean"], variance=x["variance"])
        seen = norms.batch_norm(x["x"], x["weight"], x["bias"], None if training else before, _EPS)
        after = before.updated(x["x"], _MOMENTUM) if training else before
        grads = norms.batch_norm_backward(grad, x["x"], x["weight"], seen.mean, seen.rstd, training=training)
        return (seen.out, after.mean, after.variance), dict(zip(("x", "weight", "bias"), grads, strict=True))

    return Case(
        operator="batch_norm", variant="training" if training else "evaluation",
        inputs={
            "x": 1.5 + numbers(1, 6, 5, 7, 3), "weight": numbers(2, 5), "bias": numbers(3, 5), "mean": numbers(4, 5),
            "variance": numbers(5, 5) ** 2 + 0.5,
        },
        compute=compute, reference=reference, upstream=numbers(6, 6, 5, 7, 3), length=126,
    )  # fmt: skip
