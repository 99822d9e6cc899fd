"""Loops that work in place give what they give as plain Python, and leave no reference behind."""

import sys

import numpy as np

from penstock.policies import Floats
from penstock.tools import compiled, compiled_in_place


@compiled_in_place
def _add_first(columns: Floats, column: int, out: Floats) -> float:
    row = columns[column]
    for place in range(len(out)):
        out[place] += row[0]
    return float(row[0])


@compiled
def _with_array(columns: Floats) -> Floats:
    out = np.zeros(3)
    _add_first(columns, 1, out)
    return out


def test_a_loop_in_place_writes_into_its_arguments_and_keeps_none_of_them() -> None:
    columns, out = np.arange(6.0).reshape(2, 3), np.ones(3)
    before = sys.getrefcount(columns), sys.getrefcount(out)
    for _ in range(100):
        _add_first(columns, 1, out)
    assert (sys.getrefcount(columns), sys.getrefcount(out)) == before
    assert out.tolist() == [301.0, 301.0, 301.0]


def test_compiled_loops_call_those_in_place() -> None:
    assert _with_array(np.arange(6.0).reshape(2, 3)).tolist() == [3.0, 3.0, 3.0]
