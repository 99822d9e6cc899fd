"""Curves in a terminal: their course, their bounds, and gaps where there is no number."""

import math

from penstock.cli.terminal.curves import drawing, figure, sparkline


def test_a_line_of_levels_follows_the_values() -> None:
    assert sparkline([1, 2, 3, 4], [0.0, 1.0, 2.0, 3.0], 4) == "▁▃▆█"
    assert sparkline([0, 10], [0.0, 7.0], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([5], [3.0], 10) == "▁"


def test_what_is_not_finite_is_a_gap() -> None:
    assert sparkline([1, 2, 3], [1.0, math.nan, 2.0], 3) == "▁ █"
    assert sparkline([1, 2], [math.nan, math.inf], 2) == "  "


def test_a_drawing_has_its_bounds_at_the_left() -> None:
    lines = drawing([0, 100], [0.5, 2.0], cells=10, lines=3)
    assert len(lines) == 3
    assert lines[0].startswith("         2 ")
    assert lines[-1].startswith("       0.5 ")
    assert all(len(line) == 21 for line in lines)
    assert len(drawing([3], [1.0], cells=10, lines=3)) == 3


def test_figures() -> None:
    assert [figure(value) for value in (0.123456, 1e9, math.nan, -math.inf)] == ["0.1235", "1e+09", "nan", "-inf"]
