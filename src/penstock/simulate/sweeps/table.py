"""Aggregates of a sweep as lines of text cells, for whoever prints a table."""

import math
from collections.abc import Sequence
from typing import Any

from penstock.core import format_duration
from penstock.simulate.sweeps.intervals import MeanInterval
from penstock.simulate.sweeps.rows import AXES, Aggregate


def aggregate_title(found: Sequence[Aggregate]) -> str:
    where = "several clusters" if len({each.cluster for each in found}) > 1 else found[0].cluster
    seeds = found[0].seeds
    return f"{where}, {seeds} seeds, mean ± 95 % interval" if seeds > 1 else f"{where}, one seed"


def aggregate_cells(found: Sequence[Aggregate]) -> tuple[list[str], list[list[str]]]:
    """The headings, and one line per setting and policy; an axis that does not vary has no column."""
    axes = [name for name in AXES if len({getattr(each, name) for each in found}) > 1]
    several = any(each.run_fairness_least.count for each in found)
    headings = [
        "policy", *(name.replace("_", " ") for name in axes), "in time %", "broken", "worst late", "JCT h", "preempted",
        *(["least tenant"] if several else []), "beside first", "",
    ]  # fmt: skip
    return headings, [_line(each, axes, several=several) for each in found]


def _line(each: Aggregate, axes: Sequence[str], *, several: bool) -> list[str]:
    return [
        each.policy, *(_axis(name, getattr(each, name)) for name in axes), _spread(each.ratio, 100.0),
        f"{each.broken}/{each.promises}",
        format_duration(each.broken_worst_s) if each.broken else "", _spread(each.jct_s, 1 / 3600),
        _spread(each.preemptions, 1.0), *([_spread(each.run_fairness_least, 1.0, digits=2)] if several else []),
        _spread(each.beside_first, 100.0, "+"),
        each.verdict,
    ]  # fmt: skip


def _axis(name: str, value: Any) -> str:
    if name == "wrong_by":
        return f"{100 * value:g}%"
    return "as it is" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _spread(found: MeanInterval, scale: float, sign: str = "", digits: int = 1) -> str:
    """A mean and how far the true one may be from it; nothing where there is nothing."""
    if not found.count:
        return "" if sign else "-"
    half = "" if math.isnan(found.half) else f" ±{scale * found.half:.{digits}f}"
    return f"{scale * found.mean:{sign}.{digits}f}{half}"
