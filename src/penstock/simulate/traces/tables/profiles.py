"""How fast each model trains on how many devices: throughput tables, read or made up for demonstrations."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from penstock.core import Curve, CurveError, InputError, Source, StatisticalEfficiency, TraceError, UnknownNameError
from penstock.simulate.traces.files import Row, Table, read_lines
from penstock.simulate.traces.records import trace_name
from penstock.simulate.traces.tables import gavel_table, sia_table

BATCH_COLUMN = "global_batch_size"

_COUNTS = (1, 2, 4, 8, 16, 32, 64)
_DEMO_SECONDS = {
    ("demo-cnn", 128): (0.12, 0.0015),
    ("demo-cnn", 256): (0.24, 0.0015),
    ("demo-speech", 32): (0.35, 0.003),
    ("demo-speech", 64): (0.70, 0.003),
    ("demo-transformer", 64): (0.30, 0.006),
    ("demo-transformer", 128): (0.60, 0.006),
}
"""Seconds of computing in one iteration on one device, and of exchanging gradients per doubling of devices."""

ProfileKey = tuple[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Profiles:
    """Curves by model and global batch size, one object per pair however many jobs share it.

    >>> Profiles.builtin().names
    ('demo-cnn', 'demo-speech', 'demo-transformer')
    """

    name: str
    curves: Mapping[ProfileKey, Curve]
    work: Mapping[ProfileKey, float] = field(default_factory=dict)
    """Iterations of a whole training, where the tables say that."""
    statistics: Mapping[str, StatisticalEfficiency] = field(default_factory=dict)
    """By model, where global batches follow the devices: curves and work then count iterations of the initial batch."""

    @classmethod
    def load(cls, path: Path, *, adaptive: bool = False) -> "Profiles":
        """The tables at a path: a folder of ``MODEL.csv``, the profiles of Sia, or Gavel's throughputs (JSON).

        A ``MODEL.csv`` has a row per global batch size, a column per device count and iterations per second in the
        cells; an empty cell, ``nan`` or 0 means that the model cannot run there. ``adaptive``: every job chooses the
        global batch with the most goodput on the devices it has, which only Sia's profiles tell enough for.
        """
        if adaptive:
            if not path.is_dir() or not sia_table.is_like(path):
                raise InputError(
                    f"adaptive batches with the profiles {path}", "Sia's profiles: validations tell noise scales",
                    "Leave --adaptive-batches out, or give --profiles sia/profiles",
                )  # fmt: skip
            return cls(f"{path.name}, adaptive batches", *sia_table.read_adaptive(path))
        if path.is_file():
            return cls(trace_name(path.name), gavel_table.read(path))
        if sia_table.is_like(path):
            return cls(path.name, *sia_table.read(path))
        return cls._of_csv(path)

    @classmethod
    def _of_csv(cls, directory: Path) -> "Profiles":
        files = sorted(directory.glob("*.csv"))
        if not files:
            raise TraceError(
                f"no throughput tables in {directory}",
                "a directory with one MODEL.csv per model, Sia's profiles, or Gavel's throughputs as a JSON file",
                "Check the path",
            )
        return cls(directory.name, {key: curve for file in files for key, curve in _read_table(file).items()})

    @classmethod
    def builtin(cls) -> "Profiles":
        """Curves invented for demonstrations, so that everything runs without any data at hand.

        An iteration takes ``compute / n + exchange * log2(n)`` seconds on n devices. Nobody measured this.
        """
        return cls("builtin", {key: _demo_curve(*seconds) for key, seconds in _DEMO_SECONDS.items()})

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of devices that any curve is about; :data:`ANY_KIND` where that is left open."""
        return frozenset(kind for curve in self.curves.values() for kind in curve.kinds)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({model for model, _ in self.curves}))

    def batches(self, model: str) -> tuple[int, ...]:
        """The batch sizes a model has curves for."""
        known = tuple(sorted(batch for name, batch in self.curves if name == model))
        if not known:
            raise UnknownNameError.of("model", model, self.names, f"Give a profile directory with a {model}.csv in it")
        return known

    def curve(self, model: str, batch: int) -> Curve:
        try:
            return self.curves[model, batch]
        except KeyError:
            known = ", ".join(map(str, self.batches(model)))
            raise UnknownNameError(
                f"no throughput of model {model!r} at batch size {batch}", known, f"Add a row to {model}.csv"
            ) from None

    def fitting(self, devices: int, model: str = "") -> tuple[ProfileKey, ...]:
        """The pairs, of one model or of all, that run on ``devices`` devices, measured ones if there are any."""
        return _fitting(self, devices, model)


@lru_cache(maxsize=4096)
def _fitting(profiles: Profiles, devices: int, model: str) -> tuple[ProfileKey, ...]:
    if model:
        profiles.batches(model)
    able = [key for key in sorted(profiles.curves) if profiles.curves[key].rate(devices) and model in ("", key[0])]
    covered = [key for key in able if profiles.curves[key].scalings[0][1].counts[-1] >= devices]
    return tuple(covered or able)


def _demo_curve(compute_s: float, exchange_s: float) -> Curve:
    table = {count: 1 / (compute_s / count + exchange_s * math.log2(count)) for count in _COUNTS}
    return Curve.from_table(table, source=Source.PREDICTED)


def _read_table(file: Path) -> dict[ProfileKey, Curve]:
    table = Table.from_csv(str(file), read_lines(file))
    batch_column = table.column(BATCH_COLUMN)
    counts = {
        position: _device_count(table, name) for position, name in enumerate(table.header) if name != BATCH_COLUMN
    }
    curves: dict[ProfileKey, Curve] = {}
    for row in table.rows():
        key = file.stem, row.count(batch_column)
        if key in curves:
            row.refuse(batch_column, "every batch size once")
        curves[key] = _curve(row, counts)
    if not curves:
        raise TraceError(f"{file} holds no throughput", "a row per batch size after the header")
    return curves


def _device_count(table: Table, name: str) -> int:
    if name.isdecimal() and int(name) > 0:
        return int(name)
    raise TraceError(f"{table.source} has the column {name!r}", f"{BATCH_COLUMN} and numbers of devices")


def _curve(row: Row, counts: Mapping[int, int]) -> Curve:
    try:
        return Curve.from_table({count: _rate(row, position) for position, count in counts.items()})
    except CurveError as problem:
        raise TraceError(f"{row.table.source}, line {row.line}: {problem.given}", problem.allowed) from None


def _rate(row: Row, column: int) -> float:
    if row.text(column).lower() in ("", "nan"):
        return 0.0
    rate = row.number(column)
    return rate if rate >= 0 else row.refuse(column, "iterations per second, or nothing where it cannot run")
