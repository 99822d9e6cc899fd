"""Many simulations at once: policies on clusters under loads, with wrong curves, over seeds; what they amount to."""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.simulate.sweeps.grid import Cell, Grid
    from penstock.simulate.sweeps.intervals import MeanInterval, interval
    from penstock.simulate.sweeps.results import ResultsFile
    from penstock.simulate.sweeps.rows import Aggregate, SweepRows, export_rows
    from penstock.simulate.sweeps.runner import run_grid, sweep
    from penstock.simulate.sweeps.sources import TraceFile, TraceRecipe, WorkloadSource, source_named, workload_of
    from penstock.simulate.sweeps.table import aggregate_cells, aggregate_title

__all__ = [
    "Aggregate",
    "Cell",
    "Grid",
    "MeanInterval",
    "ResultsFile",
    "SweepRows",
    "TraceFile",
    "TraceRecipe",
    "WorkloadSource",
    "aggregate_cells",
    "aggregate_title",
    "export_rows",
    "interval",
    "run_grid",
    "source_named",
    "sweep",
    "workload_of",
]

__getattr__ = lazy_door(__name__)
