"""Runs the cells of a grid, several at a time, and remembers each as soon as it is over."""

import multiprocessing
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from penstock.simulate.sweeps.grid import Cell, Grid
from penstock.simulate.sweeps.results import ResultsFile, key_of
from penstock.simulate.sweeps.rows import SweepRows
from penstock.simulate.sweeps.sources import source_named
from penstock.simulate.traces import Profiles

Told = Callable[[int, int], None]
"""Told how many cells are over, of how many."""

_AHEAD = 2
"""Cells given to the pool per worker before one of them is over."""


def sweep(
    policies: Sequence[str],
    trace: str | Path,
    *,
    workers: int | None = None,
    out: Path | None = None,
    profiles: Profiles | None = None,
    **axes: Any,
) -> SweepRows:
    """Run every policy on every combination of clusters, loads, errors and seeds; one row each.

    ``trace`` is a file or a recipe such as ``generate:jobs=500,load=1.5``. ``axes`` are the other fields of
    :class:`Grid`: ``clusters``, ``loads``, ``wrong_by``, ``seeds``, ``slot``, ``overhead``, ``doubts`` and so on. With
    ``out`` the rows also go to that file as they come, and a sweep that was interrupted goes on where it stopped.

    >>> rows = sweep(["fifo", "srtf"], "generate:jobs=20", clusters=["2x4"], loads=[0.5, 1.0], seeds=[1, 2], workers=1)
    >>> len(rows), rows[0]["policy"], rows[0]["load"]
    (8, 'fifo', 0.5)
    """
    grid = Grid(policies=policies, source=source_named(str(trace)), profiles=profiles or Profiles.builtin(), **axes)
    grid.check()
    if out is None:
        return run_grid(grid, workers=workers)
    with closing(ResultsFile(out, grid.identity())) as results:
        return run_grid(grid, workers=workers, results=results)


def run_grid(
    grid: Grid, *, workers: int | None = None, results: ResultsFile | None = None, on_progress: Told | None = None
) -> SweepRows:
    """All rows in the order of the cells; those that ``results`` has already are not run again."""
    cells = list(grid.cells())
    rows = dict(results.rows) if results is not None else {}
    missing = [cell for cell in cells if cell.key not in rows]
    with closing(_finished(grid, missing, workers)) as finished:
        for number, row in enumerate(finished, 1 + len(cells) - len(missing)):
            rows[key_of(row)] = row
            if results is not None:
                results.add(row)
            if on_progress is not None:
                on_progress(number, len(cells))
    return SweepRows(rows[cell.key] for cell in cells)


def _finished(grid: Grid, cells: Sequence[Cell], workers: int | None) -> Generator[dict[str, Any]]:
    count = min(workers or os.cpu_count() or 1, len(cells))
    if count <= 1:
        yield from (grid.run(cell) for cell in cells)
        return
    with _pool(grid, count) as pool:
        waiting, running = iter(cells), set[Future[dict[str, Any]]]()
        while True:
            for cell in waiting:
                running.add(pool.submit(_work, cell))
                if len(running) >= _AHEAD * count:
                    break
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)


@contextmanager
def _pool(grid: Grid, count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with this block, whatever ends it; they share the grid, and read its trace once each."""
    pool = ProcessPoolExecutor(
        count, multiprocessing.get_context("fork"), initializer=_enter, initargs=(grid, os.getpid())
    )
    try:
        yield pool
    except BaseException:
        for process in list(pool._processes.values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_shared: dict[str, Grid] = {}


def _enter(grid: Grid, parent: int) -> None:
    """In a worker: leave Ctrl-C to the parent, and do not outlive it."""
    import signal

    from penstock.tools import die_with_parent

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(parent)
    _shared["grid"] = grid


def _work(cell: Cell) -> dict[str, Any]:
    return _shared["grid"].run(cell)
