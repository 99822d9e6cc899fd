"""Gavel's oracle throughputs (Narayanan et al., OSDI 2020): steps per second by kind of device, job type and workers.

``{"v100": {"('ResNet-18 (batch size 128)', 4)": {"null": 38.2, …}}, "v100_unconsolidated": …}``: the entry ``null`` is
the job alone on its devices; those of pairs that share devices are not used. ``_unconsolidated`` is the speed on more
nodes than necessary, counting four devices to a node as Gavel's clusters have.
"""

import ast
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from penstock.core import Curve, Scaling, TraceError
from penstock.simulate.traces.files import read_lines
from penstock.simulate.traces.formats.gavel import job_type

_SPREAD = "_unconsolidated"
_NODE = 4
_LAYOUT = '{kind: {"(\'job type\', workers)": {"null": steps per second}}}'

Rates = dict[str, dict[int, float]]
"""Steps per second by kind and workers."""


def read(path: Path) -> dict[tuple[str, int], Curve]:
    """A curve per model and batch size, the fastest kind first."""
    tables = _parsed(path)
    alone: dict[tuple[str, int], Rates] = defaultdict(lambda: defaultdict(dict))
    for kind, entries in tables.items():
        for key, rates in entries.items():
            model, workers = _key(path, kind, key)
            rate = _rate(path, kind, key, rates)
            if rate:
                alone[job_type(model)][kind][workers] = rate
    return {key: _curve(rates) for key, rates in alone.items()}


def _parsed(path: Path) -> dict[str, dict[str, Any]]:
    try:
        tables = json.loads("".join(read_lines(path)))
    except json.JSONDecodeError as problem:
        raise TraceError(f"{path} is not JSON ({problem})", _LAYOUT) from None
    if not (isinstance(tables, dict) and tables and all(isinstance(each, dict) for each in tables.values())):
        raise TraceError(f"{path} holds no throughputs", _LAYOUT)
    return tables


def _key(path: Path, kind: str, key: str) -> tuple[str, int]:
    try:
        model, workers = ast.literal_eval(key)
        return str(model), int(workers)
    except (ValueError, SyntaxError, TypeError):
        raise TraceError(f"{path}, {kind}: {key!r}", "('job type', workers)") from None


def _rate(path: Path, kind: str, key: str, rates: Any) -> float:
    rate = rates.get("null") if isinstance(rates, dict) else None
    if not isinstance(rate, int | float) or not 0 <= rate < float("inf"):
        raise TraceError(f"{path}, {kind}, {key}: {rate!r} alone", "steps per second, zero or more")
    return float(rate)


def _curve(rates: Rates) -> Curve:
    kinds = sorted((kind for kind in rates if not kind.endswith(_SPREAD)), key=lambda kind: -max(rates[kind].values()))
    return Curve(tuple((kind.upper(), _scaling(rates[kind], rates.get(kind + _SPREAD, {}))) for kind in kinds))


def _scaling(compact: dict[int, float], spread: dict[int, float]) -> Scaling:
    counts = tuple(sorted(compact))
    wide = tuple(
        (count, nodes, spread[count])
        for count in counts
        if count in spread
        for nodes in range(-(-count // _NODE) + 1, count + 1)
    )
    return Scaling(counts=counts, rates=tuple(compact[count] for count in counts), spread=wide)
