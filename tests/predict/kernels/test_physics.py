"""The analytical part: waves, bandwidth, and the order in which times must grow."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.predict.hardware import Precision
from penstock.predict.kernels.calls import ImageLayout, KernelCall
from penstock.predict.kernels.family import rates_of
from penstock.predict.kernels.physics import BoundTimes, Physics
from penstock.predict.kernels.shapes import shape_family
from penstock.predict.kernels.tiling import matrix_view, work_of
from penstock.predict.lab.fitting.family_fitting import folds_of
from penstock.predict.lab.fitting.physics_fitting import fit_physics

from .made_up import CHIP, add, conv, gemm, some_products, true_seconds


def terms(calls: Sequence[KernelCall]) -> BoundTimes:
    return Physics().terms(work_of(calls[0].family, calls), rates_of(calls, CHIP))


def softmax(rows: int, columns: int) -> KernelCall:
    size = 4.0 * rows * columns
    return KernelCall(
        family="softmax",
        dims=(rows, columns),
        precision=Precision.FP32,
        flops=5.0 * rows * columns,
        read_bytes=size,
        written_bytes=size,
    )


@given(m=st.integers(1, 9000), n=st.integers(1, 9000), k=st.integers(1, 9000))
@settings(max_examples=60, deadline=None)
def test_a_product_never_beats_its_bounds(m: int, n: int, k: int) -> None:
    call = gemm(m, n, k)
    found = float(terms([call]).total[0])

    assert found > call.flops / CHIP.peak(call.precision)
    assert found > (call.read_bytes + call.written_bytes) / CHIP.bandwidth


@given(size=st.integers(5, 11), factor=st.integers(2, 4))
@settings(max_examples=30, deadline=None)
def test_more_work_never_takes_less_time(size: int, factor: int) -> None:
    side = 2**size
    small, large = terms([gemm(side, side, side), gemm(factor * side, side, side)]).total

    assert large >= small


def test_one_block_more_than_a_wave_holds_costs_a_wave() -> None:
    """SEER's waves: 108 units run 108 blocks at once, the 109th starts a second wave."""
    full, over = terms([gemm(256 * 54, 256, 8192), gemm(256 * 55, 256, 8192)]).total

    assert over / full > 1.2


def test_streams_pay_their_share_of_bandwidth_not_whole_waves() -> None:
    times = terms([add(2**26), add(2**26 + 2**20)]).total

    assert times[1] / times[0] == pytest.approx(1 + 2**-6, rel=2e-3)


def test_long_reductions_are_split() -> None:
    """A product with one tile of output and a long sum would leave all units but one idle."""
    found = terms([gemm(128, 128, 2**17)])

    assert found.waves[0] * CHIP.units >= 16
    assert found.total[0] < 2 * 128 * 128 * 2**17 / (CHIP.peak(Precision.BF16) / CHIP.units)


def test_rows_that_fall_out_of_the_cache_are_read_again() -> None:
    per_byte = [terms([softmax(2**27 // columns, columns)]).dram[0] for columns in (1024, 4096, 2**20)]

    assert per_byte[0] < per_byte[1] < per_byte[2]
    assert per_byte[2] == pytest.approx(2 * per_byte[0], rel=0.05)


def test_a_row_is_read_again_from_the_units_own_cache_while_that_lasts() -> None:
    """Pascal's is small, and most loads pass it by."""
    calls = [softmax(2**16, 2048)]
    later, earlier = (
        Physics().terms(work_of("softmax", calls), rates_of(calls, chip)).l2[0]
        for chip in (CHIP, replace(CHIP, generation=6.0))
    )

    assert later < earlier < 2.1 * later


def test_rows_that_start_between_vectors_are_walked_in_more_strides() -> None:
    """512 threads of four elements walk 4,096 in two strides, what is left over element by element."""
    steps = work_of("softmax", [softmax(2**16, columns) for columns in (4096, 4097, 5120, 4095)]).steps[:, 0]

    assert list(steps[[0, 2]]) == [2, 4]
    assert min(steps[[1, 3]]) > 3


def test_short_rows_are_padded_to_a_power_of_two() -> None:
    work = work_of("softmax", [softmax(2**16, columns) for columns in (520, 1000, 1024)])

    assert np.ptp(work.block_flops) == 0
    assert np.ptp(work.waits) == 0


def test_images_that_lie_channels_first_are_turned_round_for_matrix_units() -> None:
    first = conv(64, 56)
    last = KernelCall(
        family="conv", dims=first.dims, precision=first.precision, flops=first.flops, read_bytes=first.read_bytes,
        written_bytes=first.written_bytes, layout=ImageLayout.CHANNELS_LAST,
    )  # fmt: skip

    slow, quick = terms([first]).total[0], terms([last]).total[0]
    assert slow > quick


def test_a_convolution_is_the_product_it_is_turned_into() -> None:
    call = conv(64, 28)
    dims, flops = np.array([call.dims], dtype=float), np.array([call.flops])

    batch, m, n, k = (float(column[0]) for column in matrix_view("conv", dims, flops))
    assert (batch, m, n, k) == (1, 8 * 28 * 28, 64, 64 * 9)
    batch, m, n, k = (float(column[0]) for column in matrix_view("conv_wgrad", dims, flops))
    assert (batch, m, n, k) == (1, 64, 64 * 9, 8 * 28 * 28)


def test_a_flat_window_is_padded_on_its_long_side_only() -> None:
    dims = np.array([(8, 64, 64, 17, 17, 1, 7, 1, 3, 1)], dtype=float)
    flops = np.array([2.0 * 8 * 17 * 17 * 64 * 64 * 7])

    assert [float(column[0]) for column in matrix_view("conv", dims, flops)] == [1, 8 * 17 * 17, 64, 64 * 7]


def test_coefficients_are_found_from_times_they_made() -> None:
    calls = some_products(300, seed=1)
    work, rates = work_of("gemm", calls), rates_of(calls, CHIP)
    truth = np.array([true_seconds(call) for call in calls])
    before = np.abs(Physics().terms(work, rates).total / truth - 1).mean()
    fitted = fit_physics(Physics(), work, rates, truth, np.ones(len(calls)))
    after = np.abs(fitted.terms(work, rates).total / truth - 1).mean()

    assert after < 0.5 * before


def test_a_firm_prior_holds_coefficients_nearer_to_where_they_started() -> None:
    calls = some_products(100, seed=1)
    work, rates = work_of("gemm", calls), rates_of(calls, CHIP)
    truth = np.array([true_seconds(call) for call in calls])
    start = Physics()
    weak, firm = (fit_physics(start, work, rates, truth, np.ones(len(calls)), prior=prior) for prior in (0.001, 1.0))
    moved = [np.linalg.norm(found.log_coefficients - start.log_coefficients) for found in (weak, firm)]

    assert 0 < moved[1] < 0.7 * moved[0]


def test_the_same_layer_at_another_batch_stays_on_one_side_of_a_split() -> None:
    layers = [conv(64, 28, batch=batch) for batch in (1, 2, 4, 8, 16)] + [gemm(m, 512, 512) for m in (8, 64, 4096)]
    folds = folds_of(layers, 5, seed=0)

    assert len(set(folds[:5])) == 1
    assert len(set(folds[5:])) == 1
    assert shape_family(layers[0]) != shape_family(conv(64, 56))
    assert len(set(folds_of(some_products(100, seed=1), 5, seed=0))) == 5
