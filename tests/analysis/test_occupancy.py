"""Who held and who waited, put together from single jobs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.simulate.analysis.occupancy import occupancy_of
from tests.analysis.build import four_devices, job


def test_use_and_waiting_are_those_of_the_jobs() -> None:
    seen = occupancy_of(four_devices(job("a", 4, 0, 0, 100), job("b", 2, 50, 100, 100)))
    assert seen is not None
    assert seen.used == pytest.approx((400 + 200) / (4 * 200))
    assert seen.waiting_s == 50
    assert seen.waited_though_fitting == 0


def test_waiting_beside_enough_free_devices_is_told_apart_from_waiting_beside_too_few() -> None:
    fitting = occupancy_of(four_devices(job("a", 2, 0, 0, 100), job("b", 2, 0, 100, 10)))
    fragmented = occupancy_of(four_devices(job("a", 2, 0, 0, 100), job("b", 4, 0, 100, 10)))
    assert fitting is not None
    assert fragmented is not None
    assert (fitting.waited_though_fitting, fitting.waited_fragmented) == (1, 0)
    assert (fragmented.waited_though_fitting, fragmented.waited_fragmented) == (0, 1)


def test_hours_of_the_day_are_averaged_over_days() -> None:
    day = 86_400.0
    seen = occupancy_of(four_devices(job("a", 4, 0, 0, 3600), job("b", 2, day, day, 3600), job("c", 1, 0, 0, 2 * day)))
    assert seen is not None
    by_hour = seen.by_hour()
    assert by_hour[0] == pytest.approx(((4 + 2) / 2 + 1) / 4)
    assert by_hour[1:] == pytest.approx(np.full(23, 1 / 4))


def test_jobs_that_never_ran_leave_the_starts_known() -> None:
    rejected = [job(f"r{number}", 1, 0, None, 0) for number in range(5)]
    occupancy = occupancy_of(four_devices(job("a", 4, 0, 0, 10), *rejected))
    assert occupancy is not None
    assert occupancy.used == 1.0


def test_without_starts_nothing_is_said() -> None:
    assert occupancy_of(four_devices(job("a", 4, 0, None, 100))) is None


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 1000), st.integers(0, 500), st.integers(1, 500)),
        min_size=1,
        max_size=30,
    )
)
def test_sums_over_time_are_sums_over_jobs(rows: list[tuple[int, int, int, int]]) -> None:
    jobs = [job(str(i), asked, at, at + wait, run) for i, (asked, at, wait, run) in enumerate(rows)]
    seen = occupancy_of(four_devices(*jobs))
    assert seen is not None
    assert float((seen.held * seen.seconds).sum()) == pytest.approx(sum(each.device_s for each in jobs))
    assert seen.waiting_s == pytest.approx(math.fsum(wait for _, _, wait, _ in rows))
    assert 0 <= seen.waited_though_fitting + seen.waited_fragmented <= 1 + 1e-9
