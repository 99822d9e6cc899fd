"""The rows of a sweep, and what they amount to over seeds."""

import csv
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.core import InputError, require
from penstock.simulate.sweeps.intervals import MeanInterval, interval
from penstock.tools import atomic_file

AXES = ("cluster", "load", "wrong_by")
"""What is the same for rows that are compared with each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One policy in one setting over all seeds."""

    policy: str
    cluster: str
    load: float | None
    wrong_by: float
    seeds: int
    ratio: MeanInterval
    """Share of the deadlines met."""
    beside_first: MeanInterval
    """By how much that is more than the first policy's, seed by seed; nothing for the first itself."""
    jct_s: MeanInterval
    declined: MeanInterval
    late: MeanInterval
    promises: int
    broken: int
    """Promises broken, over all seeds together."""
    broken_worst_s: float
    """How late the latest of those was."""
    cpu_s: MeanInterval
    preemptions: MeanInterval
    lost_share: MeanInterval
    energy_kwh: MeanInterval
    run_fairness_least: MeanInterval
    """Used over deserved of the tenant that got least over the whole run."""
    day_fairness_least: MeanInterval
    """The same over the worst 24 hours of the run."""

    @property
    def verdict(self) -> str:
        """Whether it meets more or fewer deadlines than the first policy for more than chance."""
        if not self.beside_first.count:
            return ""
        if not self.beside_first.excludes_zero:
            return "tie"
        return "more" if self.beside_first.mean > 0 else "fewer"

    def as_dict(self) -> dict[str, Any]:
        """Flat and plain: an interval is its mean, its ends and nothing else."""
        plain: dict[str, Any] = {
            "policy": self.policy, "cluster": self.cluster, "load": self.load, "wrong_by": self.wrong_by,
            "seeds": self.seeds, "promises": self.promises, "broken": self.broken,
            "broken_worst_s": self.broken_worst_s, "verdict": self.verdict,
        }  # fmt: skip
        for name in ("ratio", "beside_first", "jct_s", "declined", "late", "cpu_s", *_OF_SUMMARIES):
            found: MeanInterval = getattr(self, name)
            for part, value in (("", found.mean), ("_low", found.low), ("_high", found.high)):
                plain[name + part] = None if math.isnan(value) else value
        return plain


_OF_SUMMARIES = ("preemptions", "lost_share", "energy_kwh", "run_fairness_least", "day_fairness_least")


class SweepRows(list[dict[str, Any]]):
    """One dictionary per cell, which ``pandas.DataFrame(rows)`` takes as it is."""

    def to_frame(self) -> Any:
        """The same as a DataFrame; needs pandas."""
        return require("pandas", extra="frames", why="a DataFrame of results").DataFrame(list(self))

    def aggregates(self) -> list[Aggregate]:
        """Per setting and policy, with 95 % intervals over the seeds; compared with the setting's first policy."""
        settings = dict.fromkeys(_setting(row) for row in self)
        policies = dict.fromkeys(row["policy"] for row in self)
        found: list[Aggregate] = []
        for setting in settings:
            groups = {
                policy: [row for row in self if _setting(row) == setting and row["policy"] == policy]
                for policy in policies
            }
            groups = {policy: rows for policy, rows in groups.items() if rows}
            first = next(iter(groups))
            found.extend(_aggregate(rows, [] if policy == first else groups[first]) for policy, rows in groups.items())
        return found


def export_rows(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows as CSV, JSON or Parquet, whichever the name ends in."""
    writers = {".csv": _write_csv, ".json": _write_json, ".parquet": _write_parquet}
    write = writers.get(path.suffix)
    if write is None:
        raise InputError(f"cannot tell the format of {path}", "a name that ends in .csv, .json or .parquet")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(rows, path)
    except OSError as problem:
        raise InputError(f"{path} cannot be written: {problem.strerror or problem}") from None


def _write_csv(rows: Sequence[dict[str, Any]], path: Path) -> None:
    with atomic_file(path) as raw:
        lines = csv.DictWriter(_Encoded(raw), _columns(rows), lineterminator="\n")
        lines.writeheader()
        lines.writerows(rows)


def _write_json(rows: Sequence[dict[str, Any]], path: Path) -> None:
    with atomic_file(path) as raw:
        raw.write((json.dumps(list(rows), indent=1) + "\n").encode())


def _write_parquet(rows: Sequence[dict[str, Any]], path: Path) -> None:
    pa = require("pyarrow", extra="parquet", why="Parquet output")
    pq = require("pyarrow.parquet", extra="parquet", why="Parquet output")
    with atomic_file(path) as raw:
        pq.write_table(pa.Table.from_pylist(list(rows)), raw)


class _Encoded:
    """Text into a binary file."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def write(self, text: str) -> None:
        self._raw.write(text.encode())


def _columns(rows: Iterable[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _setting(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in AXES)


def _aggregate(rows: Sequence[dict[str, Any]], first: Sequence[dict[str, Any]]) -> Aggregate:
    def over(name: str) -> MeanInterval:
        return interval([math.nan if row.get(name) is None else row[name] for row in rows])

    theirs = {row["seed"]: row["ratio"] for row in first}
    differences = [
        row["ratio"] - theirs[row["seed"]]
        for row in rows
        if row["ratio"] is not None and theirs.get(row["seed"]) is not None
    ]
    one, more = rows[0], {name: over(name) for name in _OF_SUMMARIES}
    return Aggregate(
        policy=one["policy"], cluster=one["cluster"], load=one["load"], wrong_by=one["wrong_by"], seeds=len(rows),
        ratio=over("ratio"), beside_first=interval(differences), jct_s=over("jct_mean_s"), declined=over("declined"),
        late=over("late"), promises=sum(row["promises"] for row in rows), broken=sum(row["broken"] for row in rows),
        broken_worst_s=max(row["broken_worst_s"] for row in rows), cpu_s=over("cpu_s"), **more,
    )  # fmt: skip
