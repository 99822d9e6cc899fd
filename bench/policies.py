"""Policies in one world, over loads and seeds, with 95 % intervals: what may be said about which one is better.

Generated jobs on 8 nodes of 8 devices, measured overhead. Rows go to ``build/policies.jsonl`` as they come, so an
interrupted run goes on where it stopped. ``python -m bench.policies [SEEDS [JOBS]]``: 20 seeds of 500 jobs by default.
"""

import sys
from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.table import Table

from penstock.simulate import Grid, ResultsFile, TraceRecipe, aggregate_cells, aggregate_title, run_grid

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


def main() -> None:
    seeds, jobs = (int(word) for word in (*sys.argv[1:], *("20", "500")[len(sys.argv) - 1 :]))
    grid = Grid(
        policies=POLICIES, source=TraceRecipe(jobs=jobs), clusters=("8x8",), loads=LOADS, seeds=range(seeds),
        overhead="measured",
    )  # fmt: skip
    grid.check()
    with closing(ResultsFile(RESULTS, grid.identity())) as results:
        rows = run_grid(grid, results=results, on_progress=_tell)
    headings, lines = aggregate_cells(found := rows.aggregates())
    table = Table(*headings, title=aggregate_title(found))
    for line in lines:
        table.add_row(*line)
    Console(width=120).print(table)


def _tell(done: int, total: int) -> None:
    print(f"\r{done} of {total} runs", end="" if done < total else "\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
