"""Policies in one world, over loads and seeds, with 95 % intervals: what may be said about which one is better.

Generated jobs on 8 nodes of 8 devices, measured overhead. Rows go to ``build/policies.jsonl`` as they come, so an
interrupted run goes on where it stopped. ``python -m bench.policies [SEEDS [JOBS]]``: 20 seeds of 500 jobs by default.

``python -m bench.policies hard [SEEDS [JOBS]]`` runs the recipe ``generate:hard`` (gangs, tight deadlines, two kinds,
bursts, unequal tenants, leases) on 4 nodes of 8 devices of each kind and says for every two policies in which figures
they differ by more than the 95 % interval of their differences seed by seed: 10 seeds of 150 jobs by default.
"""

import itertools
import math
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from penstock.simulate import (
    Grid,
    MeanInterval,
    ResultsFile,
    TraceRecipe,
    aggregate_cells,
    aggregate_title,
    interval,
    run_grid,
)

POLICIES = (
    "deadline",
    "elasticflow",
    "edf-admission",
    "edf",
    "srtf",
    "srtf:order=device-time",
    "themis",
    "tiresias",
    "fifo",
)
LOADS = (1.0, 1.5, 2.0, 3.0)
RESULTS = Path("build") / "policies.jsonl"


HARD_POLICIES = ("deadline", "unified", "elasticflow", "edf", "srtf", "chronus")
HARD_CLUSTER = "4x8xA+4x8xB"


class Figure(NamedTuple):
    """A column of a row, how it is written, and its unit."""

    title: str
    column: str
    scale: float


FIGURES = (
    Figure("in time %", "ratio", 100.0),
    Figure("JCT h", "jct_mean_s", 1 / 3600),
    Figure("best effort h", "best_effort_jct_s", 1 / 3600),
    Figure("least tenant", "run_fairness_least", 1.0),
    Figure("preemptions", "preemptions", 1.0),
    Figure("use %", "utilisation", 100.0),
)


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["hard"]:
        _hard(*(int(word) for word in (*words[1:], *("10", "150")[len(words) - 1 :])))
        return
    seeds, jobs = (int(word) for word in (*words, *("20", "500")[len(words) :]))
    grid = Grid(
        policies=POLICIES, source=TraceRecipe(jobs=jobs), clusters=("8x8",), loads=LOADS, seeds=range(seeds),
        overhead="measured",
    )  # fmt: skip
    rows = _rows(grid, RESULTS)
    headings, lines = aggregate_cells(found := rows.aggregates())
    table = Table(*headings, title=aggregate_title(found))
    for line in lines:
        table.add_row(*line)
    Console(width=120).print(table)


def _rows(grid: Grid, results: Path) -> Any:
    grid.check()
    with closing(ResultsFile(results, grid.identity())) as file:
        return run_grid(grid, workers=2, results=file, on_progress=_tell)


def _hard(seeds: int, jobs: int) -> None:
    grid = Grid(
        policies=HARD_POLICIES, source=TraceRecipe.parse(f"generate:hard,jobs={jobs}"), clusters=(HARD_CLUSTER,),
        seeds=range(seeds), overhead="measured",
    )  # fmt: skip
    rows = _rows(grid, RESULTS.with_name("policies-hard.jsonl"))
    by_policy = {policy: [row for row in rows if row["policy"] == policy] for policy in HARD_POLICIES}
    title = f"generate:hard, {jobs} jobs on {HARD_CLUSTER}, {seeds} seeds, mean ± 95 % interval"
    table = Table("policy", *(figure.title for figure in FIGURES), "broken", title=title)
    for policy, mine in by_policy.items():
        broken = f"{sum(row['broken'] for row in mine)}/{sum(row['promises'] for row in mine)}"
        table.add_row(policy, *(_spread(interval(_values(mine, each)), each.scale) for each in FIGURES), broken)
    Console(width=140).print(table)
    titles = (figure.title for figure in FIGURES)
    pairs = Table("first", "second", *titles, title="first less second, where it is no tie")
    for first, second in itertools.combinations(HARD_POLICIES, 2):
        pairs.add_row(first, second, *(_difference(by_policy[first], by_policy[second], each) for each in FIGURES))
    Console(width=140).print(pairs)


def _values(rows: Sequence[dict[str, Any]], figure: Figure) -> list[float]:
    return [math.nan if row[figure.column] is None else row[figure.column] for row in rows]


def _difference(first: Sequence[dict[str, Any]], second: Sequence[dict[str, Any]], figure: Figure) -> str:
    both = zip(_values(first, figure), _values(second, figure), strict=True)
    found = interval([one - other for one, other in both])
    return _spread(found, figure.scale) if found.excludes_zero else "tie"


def _spread(found: MeanInterval, scale: float) -> str:
    return f"{scale * found.mean:.3g} ±{scale * found.half:.2g}"


def _tell(done: int, total: int) -> None:
    print(f"\r{done} of {total} runs", end="" if done < total else "\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
