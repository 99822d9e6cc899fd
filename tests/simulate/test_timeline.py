"""Rows of bars: what all drawings of who ran where are made of."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core import Cluster
from penstock.simulate import Bar, TimeAxis, bars_of, device_runs, named_rows, node_rows

times = st.floats(0.0, 1000.0)


@given(st.sets(st.integers(0, 50)))
def test_runs_cover_every_device_once(devices: set[int]) -> None:
    runs = list(device_runs(devices))
    assert sorted(d for first, count in runs for d in range(first, first + count)) == sorted(devices)
    assert all(b[0] > a[0] + a[1] for a, b in pairwise(runs)), "runs do not touch"


@given(st.sets(st.integers(0, 50)), times, times)
def test_bars_cover_what_was_held(devices: set[int], start: float, end: float) -> None:
    held = len(devices) * max(end - start, 0.0)
    assert sum(bar.device_seconds for bar in bars_of("j", devices, start, end)) == pytest.approx(held)


@given(times, times, times, times)
def test_a_clipped_bar_lies_inside_both(start: float, length: float, since: float, window: float) -> None:
    bar, until = Bar("j", 3, 2, start, start + length), since + window
    inside = bar.clipped(since, until)
    if inside is None:
        assert min(bar.end, until) <= max(bar.start, since)
    else:
        assert max(bar.start, since) == inside.start < inside.end == min(bar.end, until)
        assert (inside.job_id, inside.first_device, inside.last_device) == ("j", 3, 4)


@given(times, times)
def test_an_axis_keeps_order_and_stays_on_its_line(first: float, second: float) -> None:
    axis = TimeAxis(100.0, 600.0, 1000.0)
    before, after = sorted((first, second))
    assert 0.0 <= axis.place(before) <= axis.place(after) <= 1000.0


def test_a_short_bar_can_still_be_seen() -> None:
    axis = TimeAxis(0.0, 100.0, 1000.0)
    assert axis.extent(Bar("j", 0, 1, 50.0, 60.0)) == (500.0, 100.0)
    assert axis.extent(Bar("j", 0, 1, 50.0, 50.001), least=1.5) == (pytest.approx(500.0), 1.5)


def test_a_window_of_no_time_is_no_division_by_zero() -> None:
    assert TimeAxis(5.0, 5.0, 1000.0).place(5.0) == 0.0


@pytest.mark.parametrize(("nodes", "named"), [(1, 1), (16, 16), (33, 17), (64, 16), (1000, 17)])
def test_rows_are_named_without_a_crowd(nodes: int, named: int) -> None:
    rows = node_rows(Cluster.parse(f"{nodes}x4"))
    assert len(rows) == nodes
    assert len(named_rows(rows)) == named
    assert named_rows(rows)[0] == (0, "node-0")
