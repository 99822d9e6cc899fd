"""Traces, a virtual clock, metrics and comparisons: the same scheduler, fed from the past."""

from typing import TYPE_CHECKING

from penstock.tools import lazy_door

if TYPE_CHECKING:
    from penstock.simulate.catalogue import KnownPolicy, check_policies, known_policies, refuse_replica
    from penstock.simulate.comparison import Setting, bound_of, compare, run_policy
    from penstock.simulate.engine import Result, simulate
    from penstock.simulate.failures import NodeFailures
    from penstock.simulate.forward import ForwardStep, JobEnds, NoOutsideEvents, OutsideEvents, play_forward
    from penstock.simulate.learning_curves import (
        CONSULTED,
        STRANGERS,
        TUNED,
        CurveFamily,
        LearningCurve,
        draw_curve,
        target_at,
    )
    from penstock.simulate.metrics import Effort, Summary, summarise
    from penstock.simulate.optimum import OPTIMUM, Optimum
    from penstock.simulate.outcomes import Fate, JobOutcome, write_csv, write_parquet
    from penstock.simulate.overhead import OVERHEADS, ArtifactCosts, costs_named
    from penstock.simulate.picture import draw
    from penstock.simulate.replicas import REPLICAS
    from penstock.simulate.report import Markup, Page, section, table, write_report
    from penstock.simulate.stop_knowledge import StopKnowledge
    from penstock.simulate.stopping_jobs import StoppingJobs
    from penstock.simulate.sweeps import (
        Aggregate,
        Cell,
        Grid,
        MeanInterval,
        ResultsFile,
        SweepRows,
        TraceFile,
        TraceRecipe,
        WorkloadSource,
        aggregate_cells,
        aggregate_title,
        export_rows,
        interval,
        run_grid,
        source_named,
        sweep,
    )
    from penstock.simulate.tenant_settings import parse_tenants
    from penstock.simulate.timeline import Bar, TimeAxis, Timeline, bars_of, device_runs, named_rows, node_rows
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
    from penstock.simulate.uncertainty import Uncertainty
    from penstock.simulate.whatif import (
        Calibration,
        Deviation,
        Figures,
        Past,
        PastJob,
        PastRules,
        RealCourse,
        ReplayedPast,
        Scenario,
        Stretch,
        WhatIfStudy,
        parse_shares,
        replay_past,
        scenarios_of,
        what_if,
    )
    from penstock.simulate.workload import Workload

__all__ = [
    "CONSULTED",
    "OPTIMUM",
    "OVERHEADS",
    "REPLICAS",
    "STRANGERS",
    "TUNED",
    "Aggregate",
    "ArtifactCosts",
    "Bar",
    "Calibration",
    "Cell",
    "CurveFamily",
    "Description",
    "Deviation",
    "Effort",
    "Fate",
    "Figures",
    "ForwardStep",
    "Grid",
    "JobEnds",
    "JobOutcome",
    "KnownPolicy",
    "LearningCurve",
    "Markup",
    "MeanInterval",
    "NoOutsideEvents",
    "NodeFailures",
    "Optimum",
    "OutsideEvents",
    "Page",
    "Past",
    "PastJob",
    "PastRules",
    "Profiles",
    "RealCourse",
    "ReplayedPast",
    "Result",
    "ResultsFile",
    "Scenario",
    "Setting",
    "StopKnowledge",
    "StoppingJobs",
    "Stretch",
    "Summary",
    "SweepRows",
    "TimeAxis",
    "Timeline",
    "Trace",
    "TraceFile",
    "TraceJob",
    "TraceRecipe",
    "Uncertainty",
    "WhatIfStudy",
    "Workload",
    "WorkloadSource",
    "aggregate_cells",
    "aggregate_title",
    "bars_of",
    "bound_of",
    "check_policies",
    "compare",
    "costs_named",
    "describe",
    "device_runs",
    "draw",
    "draw_curve",
    "export_rows",
    "generate",
    "interval",
    "interval_for_load",
    "known_policies",
    "named_rows",
    "node_rows",
    "parse_shares",
    "parse_tenants",
    "play_forward",
    "read_trace",
    "refuse_replica",
    "replay_past",
    "run_grid",
    "run_policy",
    "scenarios_of",
    "section",
    "simulate",
    "source_named",
    "summarise",
    "sweep",
    "table",
    "target_at",
    "what_if",
    "with_deadline",
    "with_model",
    "write_csv",
    "write_parquet",
    "write_report",
    "write_trace",
    "write_trace_csv",
]

__getattr__ = lazy_door(__name__)
