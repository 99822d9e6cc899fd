"""The references themselves: their gradients are those of central differences, in float64."""

import numpy as np
import pytest

pytest.importorskip("torch")

from penstock.diagnose.operators.suite.case import Case
from penstock.diagnose.operators.suite.running import all_cases

H = 1e-6
CASES = [case for case in all_cases() if case.operator != "dropout"]


def loss(case: Case, inputs: dict[str, np.ndarray]) -> float:
    outputs, _ = case.reference(inputs, case.upstream, [])
    return float((outputs[0] * case.upstream).sum())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gradients_are_central_differences(case: Case) -> None:
    inputs = {name: np.array(array) for name, array in case.inputs.items()}
    _, grads = case.reference(inputs, case.upstream, [])
    draw = np.random.default_rng(0)
    for name, grad in grads.items():
        assert grad.shape == inputs[name].shape
        for flat in draw.choice(grad.size, size=min(5, grad.size), replace=False):
            at = np.unravel_index(flat, grad.shape)
            moved = [{**inputs, name: _moved(inputs[name], at, step)} for step in (H, -H)]
            slope = (loss(case, moved[0]) - loss(case, moved[1])) / (2 * H)
            assert slope == pytest.approx(grad[at], rel=1e-4, abs=1e-4), (name, at)


def _moved(array: np.ndarray, at: tuple[int, ...], step: float) -> np.ndarray:
    out = np.array(array)
    out[at] += step
    return out


def test_every_operator_of_the_first_release_has_cases() -> None:
    wanted = {
        "matmul", "bmm", "linear", "conv1d", "conv2d", "embedding", "layer_norm", "rms_norm", "batch_norm", "softmax",
        "log_softmax", "cross_entropy", "attention", "gelu", "silu", "dropout",
    }  # fmt: skip
    assert wanted <= {case.operator for case in all_cases()}
    assert {"causal", "variable length"} <= {case.variant for case in all_cases() if case.operator == "attention"}
