"""Power by class of kernel, and under a limit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import InputError
from penstock.predict.hardware import (
    Bound,
    capped_power_w,
    demand_w,
    device_named,
    energy_j,
    slowdown,
)
from penstock.predict.lab.fitting.power_fitting import MeasuredEnergy, fit_power

H200 = device_named("h200")


def test_arithmetic_draws_more_than_memory_and_memory_more_than_waiting() -> None:
    second = [energy_j({bound: 1.0}, H200) for bound in (Bound.COMPUTE, Bound.DRAM, Bound.LATENCY)]

    assert H200.tdp_w > second[0] > second[1] > second[2] > H200.idle_w


def test_time_without_kernels_is_idle() -> None:
    busy = energy_j({Bound.DRAM: 1.0}, H200)

    assert energy_j({Bound.DRAM: 1.0}, H200, wall_s=3.0) == pytest.approx(busy + 2 * H200.idle_w)


def test_a_wall_time_shorter_than_its_kernels_is_refused() -> None:
    with pytest.raises(InputError, match="wall time"):
        energy_j({Bound.DRAM: 2.0}, H200, wall_s=1.0)


def test_measured_energies_replace_the_defaults() -> None:
    truth = {Bound.COMPUTE: 690.0, Bound.DRAM: 420.0, Bound.L2: 500.0, Bound.LATENCY: 200.0, Bound.UNDERUSED: 300.0}
    rng = np.random.default_rng(0)
    runs = []
    for shares in rng.dirichlet(np.full(5, 0.5), 60):
        seconds = dict(zip(Bound, map(float, shares), strict=True))
        joules = sum(truth[bound] * each for bound, each in seconds.items()) + 0.5 * H200.idle_w
        runs.append(MeasuredEnergy(seconds=seconds, wall_s=1.5, joules=joules))
    fitted = fit_power(runs, H200)

    assert {bound: fitted.watts[bound] for bound in truth} == pytest.approx(truth, rel=0.05)


@given(demand=st.floats(30, 800), limit=st.floats(50, 700))
def test_a_limit_is_never_exceeded_and_more_power_never_draws_less(demand: float, limit: float) -> None:
    drawn = capped_power_w(demand, limit)

    assert drawn < min(demand, limit)
    assert capped_power_w(demand, limit * 1.1) > drawn


def test_demand_is_found_back() -> None:
    assert demand_w(capped_power_w(200.0, 250.0), 250.0) == pytest.approx(200.0)


def test_a_limit_slows_arithmetic_and_not_memory() -> None:
    volta = device_named("v100")

    assert slowdown(250.0, 100.0, volta, compute_share=1.0) > 1.3
    assert slowdown(250.0, 100.0, volta, compute_share=0.0) == 1.0
    assert slowdown(250.0, 10_000.0, volta, compute_share=1.0) == pytest.approx(1.0, abs=1e-3)


def test_impossible_watts_are_refused() -> None:
    with pytest.raises(InputError, match="limit of 0"):
        capped_power_w(100.0, 0.0)
