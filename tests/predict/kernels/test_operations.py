"""Operations without a family: named where nobody timed them, predicted by their own line where somebody did."""

from dataclasses import replace

import numpy as np
import pytest

from penstock.predict import KernelCall, Precision, profile_named
from penstock.predict.kernels import KernelModel, OperationTable
from penstock.predict.lab.fitting.operation_fitting import TimedCall, fit_operations


def operation(name: str, elements: int) -> KernelCall:
    return KernelCall(
        family="operation", dims=(elements, 64), precision=Precision.FP32, flops=float(elements),
        read_bytes=4.0 * elements, written_bytes=4.0 * elements, variant=name,
    )  # fmt: skip


@pytest.fixture(scope="module")
def kernels() -> KernelModel:
    return replace(profile_named("h200").iteration.kernels, operations=OperationTable())


def test_what_nobody_timed_is_outside_whatever_its_size(kernels: KernelModel) -> None:
    found = kernels.predict([operation("unheard_of", 1 << 20)])
    assert not found.seen[0]
    assert not found.in_range[0]
    assert found.high[0] / found.low[0] > 4


def test_an_operation_that_was_timed_is_predicted_by_its_own_line(kernels: KernelModel) -> None:
    sizes = [1 << power for power in range(12, 27)]
    rows = [TimedCall(call=operation("cumsum", n), seconds=4e-6 + 3e-11 * n, launches=3) for n in sizes]
    table = fit_operations(rows, kernels)
    model = replace(kernels, operations=OperationTable.read(table.plain()))
    asked = [operation("cumsum", 3 << 18), operation("cumsum", 1 << 34)]
    found = model.predict(asked)
    assert found.seen.all()
    assert found.mean_s[0] == pytest.approx(4e-6 + 3e-11 * (3 << 18), rel=0.1)
    assert list(found.in_range) == [True, False]
    assert np.log(found.high / found.low)[1] > np.log(found.high / found.low)[0]
    assert table.of(asked[0]).launches == 3  # type: ignore[union-attr]


def test_what_a_family_knows_is_left_to_it(kernels: KernelModel) -> None:
    call = KernelCall(
        family="elementwise", dims=(1 << 20, 2, 1), precision=Precision.FP32, flops=1e6, read_bytes=8e6,
        written_bytes=4e6, variant="add",
    )  # fmt: skip
    assert not fit_operations([TimedCall(call=call, seconds=1.0)], kernels).times


def test_rows_that_are_picked_and_steps_across_memory_are_the_operations_own(kernels: KernelModel) -> None:
    """A scan of few long columns goes by its steps, one of many short ones by its bytes: one line holds both."""

    def scan(elements: int, steps: int) -> KernelCall:
        return replace(operation("cumsum/across", elements), dims=(elements, steps))

    def seconds(call: KernelCall) -> float:
        return 3e-6 + (call.read_bytes + call.written_bytes) / 2.4e12 + 1.8e-7 * call.dims[1]

    sizes = [(1 << 14, 64), (1 << 18, 16384), (1 << 20, 512), (1 << 22, 64), (1 << 24, 4096), (1 << 25, 128)]
    table = fit_operations([TimedCall(call=scan(*size), seconds=seconds(scan(*size))) for size in sizes], kernels)
    model = replace(kernels, operations=table)
    for asked in (scan(1 << 23, 64), scan(1 << 17, 32768)):
        assert model.predict([asked]).mean_s[0] == pytest.approx(seconds(asked), rel=0.15)
