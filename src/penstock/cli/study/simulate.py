"""``penstock simulate``: several policies on one trace, side by side."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock import simulate as simulation
from penstock.cli.study.options import (
    WRONG_BY_HELP,
    AdaptiveOption,
    CapsOption,
    DeadlinesOption,
    DoubtsOption,
    ElasticOption,
    EventsOption,
    FailuresOption,
    JsonOption,
    KnowledgeOption,
    OptimumOption,
    OverheadOption,
    PlacementOption,
    PolicyOption,
    ProfilesOption,
    RatesOption,
    ReportsOption,
    SlotOption,
    TenantsOption,
    UntilOption,
    WattsOption,
    load_events,
    load_profiles,
    parse_bounds,
    parse_failures,
    parse_part,
    parse_share,
    parse_slot,
)
from penstock.cli.study.sweep import aggregate_table, run_over_seeds
from penstock.cli.terminal.console import bars, interruptible, out, percent, plain_table, say, seconds
from penstock.core import Cluster, InputError, counted, format_bytes, parse_duration
from penstock.tools import atomic_directory, interpret_first

_FEW_JOBS = 100
"""So few are over sooner than numba is loaded and processes are forked."""
_INTERPRETED_S = 0.4


class RowFormat(StrEnum):
    CSV = "csv"
    PARQUET = "parquet"


def command(
    trace: Annotated[
        str, typer.Argument(help="A trace in any format we read, .gz or not, or generate:jobs=500,load=1.5")
    ],
    cluster: Annotated[str, typer.Option(help='Nodes x devices, "16x8", "4x8xA100+2x4xT4".')] = "16x8",
    policy: PolicyOption = "deadline,elasticflow,edf,tiresias,fifo",
    profiles: ProfilesOption = None,
    adaptive_batches: AdaptiveOption = False,
    slot: SlotOption = "60s",
    overhead: OverheadOption = "none",
    rates: RatesOption = "curve",
    placement: PlacementOption = None,
    deadlines: DeadlinesOption = None,
    elastic: ElasticOption = False,
    caps: CapsOption = False,
    wrong_by: Annotated[str, typer.Option(help=WRONG_BY_HELP)] = "0%",
    doubts: DoubtsOption = "0%",
    reports: ReportsOption = "10m",
    failures: FailuresOption = None,
    events: EventsOption = None,
    tenants: TenantsOption = None,
    watts: WattsOption = None,
    until: UntilOption = "0%",
    knowledge: KnowledgeOption = simulation.StopKnowledge.FORECAST,
    optimum: OptimumOption = False,
    seed: Annotated[int, typer.Option(min=0, help="For everything that is drawn.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Run so many seeds, from --seed on; show 95 % intervals.")] = 1,
    as_json: JsonOption = False,
    out_dir: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write per-job rows here.")] = None,
    rows: Annotated[RowFormat, typer.Option(help="Format of the per-job rows.")] = RowFormat.CSV,
    decisions: Annotated[
        bool,
        typer.Option("--decisions", help="With --out: every decision too, and who got whose devices."),
    ] = False,
    picture: Annotated[bool, typer.Option("--picture", help="With --out: draw who ran where (HTML).")] = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write a page that compares them.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what --out and --report name.")] = False,
    processes: Annotated[int | None, typer.Option(min=1, help="Run this many policies at once.")] = None,
) -> None:
    """Replay a trace under several policies and compare what becomes of the jobs."""
    from penstock.placement import placement_named
    from penstock.policies import split_policies

    names = split_policies(policy)
    simulation.check_policies(names)
    if placement is not None:
        placement_named(placement)
    setting = simulation.Setting(
        cluster=Cluster.parse(cluster), slot=parse_slot(slot), overhead=overhead, placement=placement,
        rates=simulation.PlacementRates.parse(rates), watts=simulation.parse_watts(watts) if watts else (),
        wrong_by=parse_share(wrong_by), doubts=parse_share(doubts), report_every_s=parse_duration(reports),
        failures=parse_failures(failures), until=parse_part(until), knowledge=knowledge,
        timeline=picture or report is not None, decisions=decisions,
        tenants=simulation.parse_tenants(tenants) if tenants else (),
    )  # fmt: skip
    setting.uncertainty(seed), simulation.OverheadModel.parse(overhead)
    if decisions and out_dir is None:
        raise InputError("--decisions without --out", "a folder to write them to", "Add --out DIR")
    besides = load_events(events)
    if besides is not None and optimum:
        raise InputError("--optimum with --events", "one of the two", "No bound is known for a world with events")
    source, bounds = simulation.source_named(trace), parse_bounds(deadlines) if deadlines else None
    if seeds > 1:
        _check_single(out_dir, report, picture)
        grid = simulation.Grid(
            policies=names, source=source, profiles=load_profiles(profiles, source, adaptive=adaptive_batches),
            clusters=[cluster],
            wrong_by=[setting.wrong_by], seeds=range(seed, seed + seeds), slot=setting.slot, overhead=setting.overhead,
            placement=placement, deadlines=bounds, caps=caps, elastic=elastic, doubts=setting.doubts,
            report_every_s=setting.report_every_s, failures=setting.failures, optimum=optimum,
            until=setting.until, knowledge=knowledge, tenants=setting.tenants, events=besides, rates=setting.rates,
            watts=setting.watts,
        )  # fmt: skip
        _show_seeds(grid, processes, as_json)
        return
    _check_target(out_dir, "--out", force)
    _check_target(report, "--report", force)
    _check_page(report)
    with interruptible():
        tables = load_profiles(profiles, source, adaptive=adaptive_batches)
        workload = simulation.workload_of(
            source, setting.cluster, tables, seed=seed, events=besides, caps=caps, elastic=elastic, deadlines=bounds
        )
        _tell(workload.trace)
        _tell_wide(workload.trace, setting.cluster)
        workload.jobs()
        if len(workload.trace) <= _FEW_JOBS:
            interpret_first(_INTERPRETED_S)
            processes = 1
        bound = simulation.bound_of(workload, setting) if optimum else None
        with bars(names, len(workload.trace)) as update:
            results = simulation.compare(names, workload, setting, processes=processes, on_progress=update)
        _tell_passed_over(results)
        figures = _figures(workload, setting, results, bound)
        if out_dir is not None:
            _write(out_dir, figures, results, setting, rows, picture)
        if report is not None:
            _write_page(report, workload, setting, results)
    print(json.dumps(figures, indent=2)) if as_json else out.print(comparison(workload, setting, results, bound))


def _tell(trace: "simulation.Trace") -> None:
    say(f"{trace.name}: {counted(len(trace), 'job')}, read as {trace.format}")


def _tell_wide(trace: "simulation.Trace", cluster: Cluster) -> None:
    if wide := sum((job.devices or 0) > cluster.device_count for job in trace):
        devices = counted(cluster.device_count, "device")
        say(f"{counted(wide, 'job')} of more devices than the {devices} of {cluster}: simulated on at most those")


def _tell_passed_over(results: "Sequence[simulation.Result]") -> None:
    for result in results:
        if count := result.passed_over:
            say(f"{result.summary.policy}: {count} of the events passed over: their jobs were over or not in the state")


def _show_seeds(grid: "simulation.Grid", processes: int | None, as_json: bool) -> None:
    """All seeds of all policies, summed up."""
    runs = run_over_seeds(grid, processes)
    found = runs.aggregates()
    if as_json:
        told = [each.as_dict() for each in found]
        print(json.dumps({"settings": grid.identity(), "results": told, "runs": runs}, indent=2))
    else:
        out.print(aggregate_table(found))


def comparison(
    workload: "simulation.Workload",
    setting: "simulation.Setting",
    results: "Sequence[simulation.Result]",
    bound: "simulation.Optimum | None" = None,
) -> Any:
    """The headline table, and in its last line what nobody could beat."""
    title = f"{workload.trace.name}: {counted(len(workload.trace), 'job')} on {setting.cluster}"
    title += f", slot {seconds(setting.slot)}, overhead {setting.overhead}{_errors(setting)}"
    table = plain_table(
        "policy", "in time", "ratio", "refused", "late", "JCT", "use", "resizes", "preempted", "CPU s", title=title
    )
    for s in (result.summary for result in results):
        table.add_row(
            s.policy, f"{s.met}/{s.jobs - s.best_effort - s.cancelled}", percent(s.ratio), str(s.declined), str(s.late),
            seconds(s.jct_mean_s), f"{100 * s.utilisation:.0f}%", str(s.rescales), str(s.preemptions), f"{s.cpu_s:.2f}",
        )  # fmt: skip
    if bound is not None:
        most, name = bound.summary(), simulation.OPTIMUM if bound.is_exact else f"{simulation.OPTIMUM}, at most"
        table.add_row(
            name, f"{most.met}/{bound.with_deadline}", percent(most.ratio), *[""] * 6, f"{bound.solve_s:.2f}"
        )  # fmt: skip
    return table


def _errors(setting: "simulation.Setting") -> str:
    told = f", curves wrong by {100 * setting.wrong_by:g}%" if setting.wrong_by else ""
    told += f", rates {setting.rates}" if setting.rates.is_different else ""
    told += f", doubts {100 * setting.doubts:g}%" if setting.doubts else ""
    if setting.until:
        told += f", {100 * setting.until:g}% end by a metric ({setting.knowledge})"
    return told + (f", failures {setting.failures}" if setting.failures else "")


def _check_single(out_dir: Path | None, report: Path | None, picture: bool) -> None:
    """Rows per job, pictures and reports are about one run."""
    if out_dir is not None or report is not None or picture:
        raise InputError(
            "--out, --picture and --report with several seeds", "one seed", "Use `penstock sweep --export rows.csv`"
        )


def _check_target(target: Path | None, option: str, force: bool) -> None:
    if target is not None and target.exists() and not force:
        raise InputError(f"{target} exists already", hint=f"Choose another {option}, or replace it with --force")


def _check_page(page: Path | None) -> None:
    if page is not None and (page.is_dir() or page.suffix.lower() not in (".html", ".htm")):
        raise InputError(
            f"A report cannot be written to {page}", "a file that ends in .html", "Try --report comparison.html"
        )


def _figures(
    workload: "simulation.Workload",
    setting: "simulation.Setting",
    results: "Sequence[simulation.Result]",
    bound: "simulation.Optimum | None",
) -> dict[str, Any]:
    return {
        "trace": workload.trace.name,
        "cluster": str(setting.cluster),
        "slot_s": setting.slot,
        "overhead": setting.overhead,
        "rates": str(setting.rates),
        "watts": dict(setting.watts),
        "events": len(workload.events),
        "wrong_by": setting.wrong_by,
        "doubts": setting.doubts,
        "failures": str(setting.failures) if setting.failures else None,
        "until": setting.until,
        "knowledge": setting.knowledge.value if setting.until else None,
        "seed": workload.seed,
        "results": [
            {**result.summary.as_dict(), "tenants": [asdict(each) for each in result.tenants]} for result in results
        ],
        "optimum": asdict(bound) if bound else None,
    }


def _write(
    directory: Path,
    report: dict[str, Any],
    results: "Sequence[simulation.Result]",
    setting: "simulation.Setting",
    rows: RowFormat,
    picture: bool,
) -> None:
    """Everything, in one step: nobody finds half of a study."""
    with _writable(directory), atomic_directory(directory) as staging:
        (staging / "summary.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        write = simulation.write_parquet if rows is RowFormat.PARQUET else simulation.write_csv
        for result in results:
            write(result.outcomes, staging / f"{result.summary.policy}.{rows}")
            if setting.decisions:
                lines = "".join(json.dumps(each) + "\n" for each in result.decisions)
                (staging / f"{result.summary.policy}.decisions.jsonl").write_text(lines, encoding="utf-8")
            if picture and result.timeline is not None:
                page = simulation.draw(result, result.cluster or setting.cluster)
                (staging / f"{result.summary.policy}.html").write_text(page, encoding="utf-8")
        if directory.exists():
            shutil.rmtree(directory)
    say(f"per-job rows written to {directory}")


def _write_page(
    report: Path,
    workload: "simulation.Workload",
    setting: "simulation.Setting",
    results: "Sequence[simulation.Result]",
) -> None:
    with _writable(report):
        shown = replace(setting, cluster=results[0].cluster or setting.cluster)
        size = simulation.write_report(report, workload, shown, results)
    say(f"{report}: {format_bytes(size)}, open it in a browser")


@contextmanager
def _writable(target: Path) -> Iterator[None]:
    """Parent folders are made; what the disk refuses is said in one sentence."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as problem:
        reason = problem.strerror or problem
        raise InputError(f"{target} cannot be written: {reason}", "a place this user may write to") from None
