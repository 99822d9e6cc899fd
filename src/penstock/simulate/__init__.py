"""Traces, a virtual clock, metrics and comparisons: the same scheduler, fed from the past."""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.simulate.catalogue import KnownPolicy, check_policies, known_policies
    from penstock.simulate.comparison import Setting, compare, run_policy
    from penstock.simulate.engine import Result, simulate
    from penstock.simulate.forward import ForwardStep, NoOutsideEvents, OutsideEvents, play_forward
    from penstock.simulate.metrics import Effort, Summary, summarise
    from penstock.simulate.outcomes import Fate, JobOutcome, write_csv, write_parquet
    from penstock.simulate.overhead import OVERHEADS, ArtifactCosts, costs_named
    from penstock.simulate.picture import draw
    from penstock.simulate.replicas import REPLICAS
    from penstock.simulate.report import Markup, Page, section, table, write_report
    from penstock.simulate.timeline import Bar, Timeline
    from penstock.simulate.traces import (
        Description,
        Profiles,
        Trace,
        TraceJob,
        describe,
        generate,
        interval_for_load,
        read_trace,
        with_deadline,
        with_model,
        write_trace,
        write_trace_csv,
    )
    from penstock.simulate.workload import Workload

__all__ = [
    "OVERHEADS",
    "REPLICAS",
    "ArtifactCosts",
    "Bar",
    "Description",
    "Effort",
    "Fate",
    "ForwardStep",
    "JobOutcome",
    "KnownPolicy",
    "Markup",
    "NoOutsideEvents",
    "OutsideEvents",
    "Page",
    "Profiles",
    "Result",
    "Setting",
    "Summary",
    "Timeline",
    "Trace",
    "TraceJob",
    "Workload",
    "check_policies",
    "compare",
    "costs_named",
    "describe",
    "draw",
    "generate",
    "interval_for_load",
    "known_policies",
    "play_forward",
    "read_trace",
    "run_policy",
    "section",
    "simulate",
    "summarise",
    "table",
    "with_deadline",
    "with_model",
    "write_csv",
    "write_parquet",
    "write_report",
    "write_trace",
    "write_trace_csv",
]

__getattr__ = lazy_door(__name__)
