"""``penstock trace``: look at a trace, make one, or bring one into our format."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from penstock.cli.study.options import load_profiles, parse_bounds, parse_part
from penstock.cli.terminal.console import out as stdout
from penstock.cli.terminal.console import say
from penstock.core import Cluster, InputError, counted, format_duration, parse_duration
from penstock.simulate import (
    SIZES,
    Description,
    Profiles,
    Trace,
    TraceJob,
    describe,
    gang_sizes,
    generate,
    interval_for_load,
    read_trace,
    with_deadline,
    with_gangs,
    with_model,
    write_trace,
    write_trace_csv,
)

app = typer.Typer(no_args_is_help=True, help="Look at traces, make them, convert them.")

ProfilesOption = Annotated[
    Path | None, typer.Option("--profiles", metavar="DIR", help="Throughput tables, one MODEL.csv per model.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="The same seed draws the same jobs.")]
OutOption = Annotated[Path | None, typer.Option(help=".csv or .jsonl, .gz allowed (default: CSV on stdout).")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]

_DEFAULT_CLUSTER = "16x8"
_DEFAULT_LOAD = 0.8


@app.command("describe")
def describe_command(
    trace: Annotated[Path, typer.Argument(help="A trace in any format we read, .gz or not.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Say what is in a trace: how many jobs, how large, how long, how tight their deadlines."""
    found = describe(read_trace(trace))
    if as_json:
        print(json.dumps(found.as_dict(), indent=2))
    else:
        stdout.print(_table(found))


@app.command("generate")
def generate_command(
    jobs: Annotated[int, typer.Option(min=1, help="How many jobs.")],
    seed: SeedOption = 0,
    cluster: Annotated[
        str | None, typer.Option(help=f"The cluster the load is meant for [{_DEFAULT_CLUSTER}].")
    ] = None,
    load: Annotated[
        float | None, typer.Option(help=f"Devices asked for, as a share of the cluster [{_DEFAULT_LOAD}].")
    ] = None,
    interval: Annotated[
        str | None, typer.Option(help='Mean time between jobs, "60" or "2m", instead of a load.')
    ] = None,
    best_effort: Annotated[float, typer.Option(help="Share of jobs without a deadline.")] = 0.0,
    deadlines: Annotated[str, typer.Option(help="Deadlines in multiples of the duration.")] = "0.5..1.5",
    daily_swing: Annotated[float, typer.Option(help="How much the rate moves over a day, 0 to 1.")] = 0.0,
    tenants: Annotated[int, typer.Option(min=1, help="How many tenants.")] = 1,
    skew: Annotated[float, typer.Option(help="The k-th tenant submits in proportion to 1/k^SKEW; 0: all alike.")] = 0.0,
    burst: Annotated[float, typer.Option(help="Jobs come together, so many at a time on average.")] = 1.0,
    gangs: Annotated[
        str, typer.Option(help="Share of jobs that run on exactly a quarter or half of the cluster's largest kind.")
    ] = "0%",
    tight: Annotated[
        str, typer.Option(help="Share of deadlines that are 1.05 to 1.5 times the run time on the best devices.")
    ] = "0%",
    profiles: ProfilesOption = None,
    out: OutOption = None,
    force: ForceOption = False,
) -> None:
    """Make a trace out of a seed."""
    records = generate(
        jobs,
        seed=seed,
        profiles=load_profiles(profiles),
        mean_interval_s=_interval(cluster, load, interval, parse_part(gangs)),
        lambda_range=parse_bounds(deadlines),
        best_effort=best_effort,
        daily_swing=daily_swing,
        tenants=tenants,
        skew=skew,
        burst=burst,
        gangs=parse_part(gangs),
        tight=parse_part(tight),
        cluster=Cluster.parse(cluster or _DEFAULT_CLUSTER),
    )
    _write(records, out, force=force)


@app.command("convert")
def convert_command(
    trace: Annotated[Path, typer.Argument(help="A trace in any format we read, .gz or not.")],
    target: Annotated[Path | None, typer.Argument(metavar="[OUT]", help="The same as --out.")] = None,
    out: OutOption = None,
    profiles: ProfilesOption = None,
    seed: SeedOption = 0,
    deadlines: Annotated[
        str | None, typer.Option(help='Draw missing deadlines, "0.5..1.5" times the duration.')
    ] = None,
    force: ForceOption = False,
) -> None:
    """Rewrite a trace in our format; with profiles, give every job a model and iterations."""
    if out is not None and target is not None:
        raise InputError(f"both {target} and --out {out}", "one of them", "Leave one out")
    given = read_trace(trace)
    records: Iterator[TraceJob] = iter(given)
    if profiles is not None:
        tables = Profiles.load(profiles)
        records = (with_model(record, tables, seed=seed) for record in records)
    if deadlines is not None:
        bounds = parse_bounds(deadlines)
        records = (with_deadline(record, bounds, seed=seed) for record in records)
    _write(records, out or target, force=force, given=given, source=trace)


def _write(
    records: Iterable[TraceJob],
    out: Path | None,
    *,
    force: bool,
    given: Trace | None = None,
    source: Path | None = None,
) -> None:
    """Write to a file, or as CSV to stdout; say how many jobs, and which rows of the trace ``given`` are left out."""
    if out is None:
        write_trace_csv(records, sys.stdout)
    else:
        count = write_trace(out, records, overwrite=force, source=source)
        say(f"{counted(count, 'job')} written to {out}{_left_out(given) if given is not None else ''}")


def _interval(cluster: str | None, load: float | None, interval: str | None, gangs: float) -> float:
    if interval is None:
        meant = Cluster.parse(cluster or _DEFAULT_CLUSTER)
        sizes = with_gangs(SIZES, gangs, gang_sizes(meant))
        return interval_for_load(_DEFAULT_LOAD if load is None else load, meant.device_count, sizes=sizes)
    if cluster is not None or load is not None:
        raise InputError("both --interval and a load", "--interval, or --cluster with --load", "Leave one out")
    return parse_duration(interval)


def _left_out(trace: Trace) -> str:
    return "".join(f"; {counted(count, 'row')} with {reason} left out" for reason, count in trace.skipped)


def _table(description: Description) -> Table:
    table = Table(title=f"{description.name} ({description.format})", show_header=False)
    table.add_row("jobs", f"{description.jobs:,}")
    table.add_row("span", format_duration(description.span_s))
    table.add_row("device-hours requested", f"{description.device_hours:,.0f}")
    table.add_row("devices", _counts(description.sizes))
    table.add_row("duration", _quantiles({key: format_duration(s) for key, s in description.durations_s.items()}))
    table.add_row("deadline / duration", _quantiles({key: f"{ratio:.2f}" for key, ratio in description.slack.items()}))
    table.add_row("best effort", f"{description.best_effort:.1%}")
    table.add_row("models", _counts(description.models))
    table.add_row("tenants", f"{description.tenants}")
    table.add_row("rows left out", _counts(description.skipped))
    return table


def _counts(counts: Mapping[str, int] | Mapping[int, int]) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in counts.items()) or "-"


def _quantiles(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "-"
