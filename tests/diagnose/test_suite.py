"""The self-test of a device: silent on a sound one, and it names the operator of a broken one."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from penstock.diagnose.operators.suite.running import Layout, all_cases, laid_out, run_suite  # noqa: E402
from penstock.diagnose.operators.suite.updates import update_errors  # noqa: E402
from penstock.diagnose.operators.updates import CheckedUpdates  # noqa: E402
from tests.diagnose.mutants import MUTANTS  # noqa: E402

SEEN_BY_SUITE = {
    "convolution: image moved by one": {"conv1d", "conv2d", "conv_transpose2d"},
    "native_layer_norm: unbiased variance": {"layer_norm"},
    "native_batch_norm: running mean stays": {"batch_norm"},
    "attention: causal mask forgotten": {"attention"},
    "embedding_dense_backward: repeated words overwrite": {"embedding"},
    "gelu: tanh where erf was asked for": {"gelu"},
}


def test_a_sound_device_raises_nothing_in_any_dtype_and_layout() -> None:
    result = run_suite("cpu")
    assert [each.line for each in result.wrong] == []
    assert {each.dtype for each in result.results} == {"float32", "bfloat16", "float16"}
    assert {each.layout for each in result.results} == set(Layout)
    assert len({each.operator for each in result.results}) >= 25


def test_the_same_library_has_the_same_checksum() -> None:
    some = [case for case in all_cases() if case.operator in ("linear", "softmax")]
    assert run_suite("cpu", cases=some).checksum == run_suite("cpu", cases=some).checksum


@pytest.mark.parametrize("name", SEEN_BY_SUITE)
def test_a_broken_operator_is_named(name: str) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    with mutant.broken():
        result = run_suite("cpu", dtypes=("float32",), layouts=(Layout.CONTIGUOUS,))
    assert {each.operator for each in result.wrong} == SEEN_BY_SUITE[name]


def test_an_operator_that_raises_is_told_with_its_words() -> None:
    from tests.diagnose.broken_library import broken_kernel

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("an illegal memory access was encountered")

    some = [case for case in all_cases() if case.operator in ("gelu", "silu")]
    with broken_kernel("gelu", fails):
        result = run_suite("cpu", cases=some, dtypes=("float32",), layouts=(Layout.CONTIGUOUS,))
    assert {each.operator for each in result.wrong} == {"gelu"}
    assert "illegal memory access" in result.wrong[0].line


def test_updates_of_all_optimizers_are_right() -> None:
    found = dict(update_errors("cpu"))
    assert len(found) == 19
    assert all(error <= 1 for error in found.values()), found


@pytest.mark.parametrize("layout", Layout)
def test_a_layout_keeps_the_values_and_changes_where_they_lie(layout: Layout) -> None:
    values = torch.arange(120.0).reshape(2, 3, 4, 5)
    laid = laid_out(values, layout, "float32", "cpu")
    assert np.array_equal(laid.numpy(), values.numpy())
    assert laid.is_contiguous() is (layout is Layout.CONTIGUOUS)


@pytest.mark.parametrize("bias_is_zero", [True, False])
def test_betas_in_single_precision_are_no_mistake(bias_is_zero: bool) -> None:
    """As the fused kernel of CUDA keeps them: 1 - 0.999 is off by 216 roundings there."""
    weight = torch.nn.Parameter(torch.zeros(65) if bias_is_zero else torch.randn(65))
    optimizer, checked = torch.optim.AdamW([weight], lr=0.01), CheckedUpdates()

    def fused_step() -> None:
        state, grad = optimizer.state[weight], weight.grad
        count = float(state.get("step", torch.tensor(0.0))) + 1
        mean, square = state.get("exp_avg", torch.zeros(65)), state.get("exp_avg_sq", torch.zeros(65))
        mean = torch.lerp(grad, mean, torch.tensor(0.9))
        square = torch.lerp(grad * grad, square, torch.tensor(0.999))
        root = square.sqrt() / (1 - 0.999**count) ** 0.5 + 1e-8
        with torch.no_grad():
            weight.copy_(weight - 0.01 * 0.01 * weight - 0.01 / (1 - 0.9**count) * mean / root)
        state.update(step=torch.tensor(count), exp_avg=mean, exp_avg_sq=square)

    optimizer.step = fused_step
    torch.manual_seed(0)
    for _ in range(3):
        weight.grad = torch.randn(65)
        checked.step(optimizer)
    assert checked.errors["AdamW update"] <= 1
    assert float((optimizer.state[weight]["exp_avg_sq"]).min()) > 0
