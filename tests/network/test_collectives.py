"""Collectives: laws they must obey, and the public measurements they were fitted to."""

import csv
from pathlib import Path

import numpy as np
import pytest
from bench.link_fitting import AllReduceTime, fitted_link
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import InputError, UnknownNameError
from penstock.network import (
    LINKS,
    Link,
    allgather_s,
    allreduce_s,
    data_parallel_s,
    exposed_s,
    reduce_scatter_s,
    ring_allreduce_s,
    send_s,
    tree_allreduce_s,
)
from tests.tools import needs

TABLE = Path(__file__).resolve().parents[3] / "shared" / "data" / "vtrain" / "allreduce_lut.csv"
PLAIN = Link(name="plain", start_s=1e-5, hop_s=1e-6, bandwidth=1e10)


@pytest.mark.parametrize("link", LINKS)
def test_one_device_has_nobody_to_talk_to(link: str) -> None:
    assert ring_allreduce_s(1e9, 1, link) == tree_allreduce_s(1e9, 1, link) == allgather_s(1e9, 1, link) == 0
    assert (
        ring_allreduce_s(0, 8, link) == tree_allreduce_s(0, 8, link) == allgather_s(0, 8, link) == send_s(0, link) == 0
    )
    assert tree_allreduce_s(1, 2, link) > 0


def test_a_ring_sends_what_the_formula_says() -> None:
    assert ring_allreduce_s(8e9, 4, PLAIN) == pytest.approx(1e-5 + 6e-6 + 2 * 3 / 4 * 0.8)
    assert allgather_s(8e9, 4, PLAIN) == pytest.approx(1e-5 + 3e-6 + 3 / 4 * 0.8)
    assert send_s(1e10, PLAIN) == pytest.approx(1 + 1.1e-5)


def test_trees_win_small_messages_among_many_and_rings_large_ones() -> None:
    assert tree_allreduce_s(1e4, 256, PLAIN) < ring_allreduce_s(1e4, 256, PLAIN)
    assert ring_allreduce_s(1e9, 8, PLAIN) < tree_allreduce_s(1e9, 8, PLAIN)


@given(size=st.floats(1, 1e11), devices=st.integers(2, 64), link=st.sampled_from(["nvlink3", "pcie4", "gloo"]))
def test_more_bytes_take_longer_and_halves_make_a_whole(size: float, devices: int, link: str) -> None:
    assert allreduce_s(2 * size, devices, link) > allreduce_s(size, devices, link)
    halves = reduce_scatter_s(size, devices, link) + allgather_s(size, devices, link)
    assert halves >= ring_allreduce_s(size, devices, link) * (1 - 1e-9)


def test_backward_hides_all_but_the_last_bucket() -> None:
    assert exposed_s([0.1] * 10, backward_s=10.0) == pytest.approx(0.1)
    assert exposed_s([2.0] * 10, backward_s=10.0) == pytest.approx(1 + 20 - 10)
    assert data_parallel_s(1e9, 1, "nvlink3", backward_s=1.0) == 0
    assert 0 < data_parallel_s(1e9, 8, "nvlink3", backward_s=1.0) < allreduce_s(1e9, 8, "nvlink3")


def test_bad_questions_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="nvlink3"):
        allreduce_s(1.0, 2, "nvlink33")
    with pytest.raises(InputError, match="0 devices"):
        allreduce_s(1.0, 0, "nvlink3")
    with pytest.raises(InputError, match="bandwidth"):
        Link(name="broken", start_s=0.0, hop_s=0.0, bandwidth=0.0)


def test_a_fit_finds_the_link_that_made_the_times() -> None:
    truth = Link(name="truth", start_s=3e-5, hop_s=2e-6, bandwidth=2e11, ramp_s=5e-9)
    times = [
        AllReduceTime(size_bytes=size, devices=devices, seconds=ring_allreduce_s(size, devices, truth))
        for size in np.geomspace(1e5, 1e9, 30)
        for devices in range(2, 9)
    ]
    found = fitted_link("found", times)

    assert found.bandwidth == pytest.approx(truth.bandwidth, rel=1e-3)
    assert found.start_s == pytest.approx(truth.start_s, rel=1e-2)
    assert found.hop_s == pytest.approx(truth.hop_s, rel=1e-2)


@pytest.mark.skipif(not TABLE.is_file(), reason=needs.reason("public data are missing", needs.data_advice("vtrain")))
@pytest.mark.parametrize(("gpu", "link", "largest"), [("a100", "nvlink3", 0.05), ("v100", "nvlink2", 0.02)])
def test_shipped_links_fit_the_public_table(gpu: str, link: str, largest: float) -> None:
    with TABLE.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["gpu"] == gpu]
    errors = [
        abs(allreduce_s(float(row["bytes"]), int(row["num_gpus"]), link) / (float(row["time_ns"]) / 1e9) - 1)
        for row in rows
    ]

    assert len(errors) == 7168
    assert np.mean(errors) < largest
