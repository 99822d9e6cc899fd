"""A fitted kernel model: right on shapes it has not seen, honest about those it knows nothing of, same from disk."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.core import InputError
from penstock.predict.hardware import Bound, device_named
from penstock.predict.kernels import KernelCall, KernelModel, Precision
from penstock.predict.lab.fitting.boosting import BoostingOptions
from penstock.predict.lab.fitting.family_fitting import MeasuredCall
from penstock.predict.lab.fitting.kernel_fitting import fit_kernels

from .made_up import CHIP, add, conv, gemm, measured, some_additions, some_products, true_seconds

QUICK = BoostingOptions(trees=40, rate=0.2, bins=32)
FEW = BoostingOptions(trees=5, bins=16)


@pytest.fixture(scope="module")
def model() -> KernelModel:
    rows = measured(some_products(400, seed=1)) + measured(some_additions(200, seed=2), seed=1)
    return fit_kernels(rows, CHIP, options=QUICK)


def relative_errors(model: KernelModel, calls: list[KernelCall]) -> np.ndarray:
    truth = np.array([true_seconds(call) for call in calls])
    return model.predict(calls).seconds / truth - 1


def test_unseen_shapes_are_predicted_well(model: KernelModel) -> None:
    products, additions = some_products(200, seed=11), some_additions(200, seed=12)

    assert np.abs(relative_errors(model, products)).mean() < 0.08
    assert np.abs(relative_errors(model, additions)).mean() < 0.05


def test_sums_are_not_biased(model: KernelModel) -> None:
    calls = some_products(400, seed=21) + some_additions(400, seed=22)
    truth = sum(true_seconds(call) for call in calls)

    assert model.predict(calls).mean_s.sum() == pytest.approx(truth, rel=0.04)


def test_kernels_that_sometimes_take_far_longer_are_longer_in_a_sum_than_usually() -> None:
    rng, calls = np.random.default_rng(5), some_products(60, seed=51)
    rows = [
        replace(row, seconds=row.seconds * (1.6 if rng.random() < 0.25 else 1.0), alone=True)
        for row in measured(calls * 10)
    ]
    found = fit_kernels(rows, CHIP, options=QUICK).predict([row.call for row in rows])
    truth = np.array([row.seconds for row in rows])

    assert 1.03 < np.median(found.mean_s / found.seconds) < 1.3
    assert abs(found.mean_s.sum() / truth.sum() - 1) < 0.03 < abs(found.seconds.sum() / truth.sum() - 1)
    assert np.mean((found.seconds / truth - 1) ** 2) < np.mean((found.mean_s / truth - 1) ** 2)


def test_layers_measured_alone_teach_their_shapes_but_are_not_remembered_one_by_one() -> None:
    rows = [replace(row, alone=True) for row in measured(some_products(80, seed=61))]
    (alone,) = fit_kernels(rows, CHIP, options=FEW).families.values()
    (both,) = fit_kernels([*rows, replace(rows[0], alone=False)], CHIP, options=FEW).families.values()

    assert alone.layer_memory is None
    assert both.layer_memory is not None
    assert len(both.layer_memory.layers) == 1


def test_the_learned_part_beats_physics_alone(model: KernelModel) -> None:
    calls = some_products(200, seed=31)

    learned = np.abs(relative_errors(model, calls)).mean()
    assert learned < 0.5 * np.abs(relative_errors(KernelModel.unprofiled(CHIP), calls)).mean()


def test_error_bars_hold_nine_of_ten(model: KernelModel) -> None:
    rows = measured(some_products(300, seed=41), seed=9)
    found = model.predict([row.call for row in rows])
    truth = np.array([row.seconds for row in rows])

    inside = np.mean((truth >= found.low) & (truth <= found.high))
    assert 0.8 <= inside <= 0.99


def test_shapes_far_outside_are_said_to_be_and_have_wider_bars(model: KernelModel) -> None:
    found = model.predict([gemm(1000, 900, 800), gemm(10**6, 10**6, 64)])
    widths = found.high / found.low

    assert list(found.in_range) == [True, False]
    assert widths[1] > widths[0]


def test_a_precision_nobody_measured_is_out_of_range(model: KernelModel) -> None:
    assert not model.predict([gemm(1000, 900, 800, precision=Precision.FP32)]).in_range[0]


def test_large_products_scale_as_physics_says(model: KernelModel) -> None:
    """Trees are flat outside what they saw; the analytical part must carry the growth."""
    small, large = model.predict([gemm(8192, 8192, 8192), gemm(32768, 32768, 32768)]).seconds

    assert large / small == pytest.approx(64, rel=0.25)


def test_variants_differ_and_an_unknown_one_still_gets_a_time(model: KernelModel) -> None:
    calls = [add(2**24, "add"), add(2**24, "softplus"), add(2**24, "never seen")]
    plain, soft, unknown = model.predict(calls).seconds

    assert soft / plain == pytest.approx(1.4, rel=0.1)
    assert plain * 0.8 < unknown < soft * 1.2


def test_the_bound_explains_the_time(model: KernelModel) -> None:
    found = model.predict([gemm(8192, 8192, 8192), add(2**28), add(64), gemm(64, 64, 8192)])

    assert found.bounds[0] == Bound.COMPUTE
    assert found.bounds[1] == Bound.DRAM
    assert found.bounds[2] == Bound.LATENCY
    assert found.bounds[3] in (Bound.LATENCY, Bound.UNDERUSED)


def test_equal_calls_get_equal_times_in_any_order(model: KernelModel) -> None:
    calls = [gemm(512, 512, 512), add(2**20), gemm(512, 512, 512), add(2**22)]
    forward, backward = model.predict(calls).seconds, model.predict(calls[::-1]).seconds

    assert forward[0] == forward[2]
    assert list(forward) == list(backward[::-1])


def test_nothing_to_predict_is_no_error(model: KernelModel) -> None:
    assert len(model.predict([]).seconds) == 0


def test_the_same_rows_give_the_same_model() -> None:
    rows = measured(some_products(60, seed=3))
    calls = some_products(20, seed=4)
    first, second = (fit_kernels(rows, CHIP, options=replace(FEW, trees=10)).predict(calls) for _ in range(2))

    assert np.array_equal(first.seconds, second.seconds)


def test_a_model_read_back_says_the_same(model: KernelModel, tmp_path: Path) -> None:
    path = tmp_path / "a100.npz"
    model.save(path)
    calls = [*some_products(30, seed=5), *some_additions(30, seed=6), conv(64, 28)]
    before, after = model.predict(calls), KernelModel.load(path).predict(calls)

    assert KernelModel.load(path).chip == CHIP
    for column in ("seconds", "low", "high", "in_range"):
        assert np.array_equal(getattr(before, column), getattr(after, column))


def test_a_stored_model_holds_no_pickles(model: KernelModel, tmp_path: Path) -> None:
    path = tmp_path / "a100.npz"
    model.save(path)

    with np.load(path, allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)


def test_files_that_are_no_model_are_refused(tmp_path: Path) -> None:
    text, arrays = tmp_path / "text.npz", tmp_path / "arrays.npz"
    text.write_text("no arrays here")
    np.savez(arrays, values=np.ones(3))

    for path in (text, arrays, tmp_path / "missing.npz"):
        with pytest.raises(InputError, match=path.name):
            KernelModel.load(path)


def test_a_family_without_measurements_falls_back_to_physics(model: KernelModel) -> None:
    found = model.predict([conv(256, 28)])

    assert not found.in_range[0]
    assert found.seconds[0] == KernelModel.unprofiled(CHIP).predict([conv(256, 28)]).seconds[0]


def test_a_faster_unprofiled_device_is_predicted_faster() -> None:
    calls = [gemm(8192, 8192, 8192), add(2**28)]
    times = {name: KernelModel.unprofiled(device_named(name)).predict(calls).seconds for name in ("t4", "a100", "h200")}

    assert np.all(times["t4"] > times["a100"])
    assert np.all(times["a100"] > times["h200"])


def test_a_model_is_carried_to_a_device_that_nobody_measured() -> None:
    """Shares of its own rates: near what the law says there, and sure of nothing."""
    other = device_named("v100")
    model = fit_kernels(measured(some_products(200, seed=7) + some_additions(100, seed=7)), CHIP, options=QUICK)
    calls = [replace(call, precision=Precision.FP16) for call in some_products(60, seed=8, largest=12.0)]
    truth = np.array([true_seconds(call, other) for call in calls])
    found = model.carried_to(other).predict(calls)

    assert np.abs(found.seconds / truth - 1).mean() < 0.35
    assert not found.in_range.any()
    assert model.profiled
    assert not model.carried_to(other).profiled


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_times_that_cannot_be_are_refused(seconds: float) -> None:
    with pytest.raises(InputError, match="gemm"):
        MeasuredCall(call=gemm(8, 8, 8), seconds=seconds)


def test_no_rows_are_refused() -> None:
    with pytest.raises(InputError, match="penstock profile device"):
        fit_kernels([], CHIP)


def test_unknown_families_and_wrong_dims_are_refused(model: KernelModel) -> None:
    odd = KernelCall(family="gem", dims=(1,), precision=Precision.FP32, flops=1, read_bytes=1, written_bytes=1)
    with pytest.raises(InputError, match="gemm"):
        model.predict([odd])
    short = KernelCall(family="gemm", dims=(1, 2), precision=Precision.FP32, flops=1, read_bytes=1, written_bytes=1)
    with pytest.raises(InputError, match="4 numbers"):
        model.predict([short])
