"""Traces, a virtual clock, metrics and comparisons: the same scheduler, fed from the past."""

from penstock.simulate.compare import Setting, check_policies, compare, known_policies, run_policy
from penstock.simulate.engine import Result, simulate
from penstock.simulate.metrics import Effort, Summary, summarise
from penstock.simulate.outcomes import Fate, JobOutcome, write_csv, write_parquet
from penstock.simulate.overhead import OVERHEADS, ArtifactCosts, costs_named
from penstock.simulate.picture import draw
from penstock.simulate.timeline import Bar, Timeline
from penstock.simulate.workload import Workload

__all__ = [
    "OVERHEADS",
    "ArtifactCosts",
    "Bar",
    "Effort",
    "Fate",
    "JobOutcome",
    "Result",
    "Setting",
    "Summary",
    "Timeline",
    "Workload",
    "check_policies",
    "compare",
    "costs_named",
    "draw",
    "known_policies",
    "run_policy",
    "simulate",
    "summarise",
    "write_csv",
    "write_parquet",
]
