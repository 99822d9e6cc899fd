"""The extended model against public measurements, with constants fitted on one node only."""

import math

import numpy as np
import pytest

from penstock.core import InputError
from tests.tools import needs

bench = pytest.importorskip("bench.vtrain")

needs.public_data("vtrain")

CONSTANTS = (0.869, 0.7215, 4.067e-5, 16.04, 2.706, 1.196)
"""What ``python -m bench.vtrain`` fits on the single-node file; fitting takes too long for a test."""


def test_rows_that_differ_in_layers_count_once() -> None:
    rows = bench.read_rows(bench.DATA / "measured_single_node_a100.csv")
    assert len(rows) == 1440
    assert len(bench.one_row_per_setting(rows)) == 360


def test_constants_are_fitted_on_one_node_only() -> None:
    collectives = bench.read_collectives(bench.DATA / "allreduce_lut.csv")
    single = bench.one_row_per_setting(bench.read_rows(bench.DATA / "measured_single_node_a100.csv"))
    multi = bench.read_rows(bench.DATA / "measured_multi_node_a100.csv")
    assert max(row.devices for row in single) <= bench.PER_NODE < min(row.devices for row in multi)
    with pytest.raises(InputError, match="single-node rows only"):
        bench.fit([*single, multi[0]], collectives)


def test_the_fit_reaches_its_constants_from_a_few_rows() -> None:
    """A fit over every twelfth setting is near the shipped one where one node says anything about a constant."""
    collectives = bench.read_collectives(bench.DATA / "allreduce_lut.csv")
    rows = bench.one_row_per_setting(bench.read_rows(bench.DATA / "measured_single_node_a100.csv"))[::12]
    found = bench.fit(rows, collectives)
    assert found[0] <= bench.BEST_PRODUCT * (1 + 1e-9)
    assert found[1:3] == pytest.approx(CONSTANTS[1:3], rel=0.2)


def test_many_nodes_are_predicted_from_one() -> None:
    collectives = bench.read_collectives(bench.DATA / "allreduce_lut.csv")
    predictor = bench.Predictor(CONSTANTS, collectives, node_network=100e9, padded=True)
    found = np.abs(bench.errors(predictor, bench.read_rows(bench.DATA / "measured_multi_node_a100.csv")))
    assert len(found) == 109
    assert found.mean() < 0.085
    assert np.median(found) < 0.05
    assert found.mean() < bench.PUBLISHED["multi node"] / 100


def test_the_constants_are_no_worse_than_their_neighbours_on_one_node() -> None:
    collectives = bench.read_collectives(bench.DATA / "allreduce_lut.csv")
    rows = bench.one_row_per_setting(bench.read_rows(bench.DATA / "measured_single_node_a100.csv"))[::6]

    def error(constants: tuple[float, ...]) -> float:
        predictor = bench.Predictor(constants, collectives, node_network=math.inf, padded=False)
        return float(np.abs(bench.errors(predictor, rows)).mean())

    here = error(CONSTANTS)
    for place in range(1, len(CONSTANTS)):
        for factor in (0.7, 1.4):
            moved = tuple(value * factor if at == place else value for at, value in enumerate(CONSTANTS))
            assert error(moved) > 0.97 * here
