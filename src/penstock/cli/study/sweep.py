"""``penstock sweep``: policies x clusters x loads x wrong curves x seeds, in parallel, with intervals."""

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
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
from penstock.cli.terminal.console import bars, complain, out, plain_table, say
from penstock.core import InputError, parse_duration


def command(
    trace: Annotated[
        str,
        typer.Argument(help="A trace file, or a recipe with a new trace per seed: generate:jobs=500,deadlines=1..2"),
    ] = "generate:jobs=500",
    policy: PolicyOption = "deadline,elasticflow,edf,srtf,fifo",
    cluster: Annotated[str, typer.Option(help='One or several, "8x8,16x8".')] = "8x8",
    loads: Annotated[
        str | None,
        typer.Option(help='"0.5,1,1.5": what a recipe asks of the cluster; how much faster the jobs of a file come.'),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="So many, from --seed on.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="The first one.")] = 0,
    wrong_by: Annotated[str, typer.Option(help=f'{WRONG_BY_HELP} One or several, "0%,20%".')] = "0%",
    doubts: DoubtsOption = "0%",
    reports: ReportsOption = "10m",
    failures: FailuresOption = None,
    events: EventsOption = None,
    tenants: TenantsOption = None,
    watts: WattsOption = None,
    until: UntilOption = "0%",
    knowledge: KnowledgeOption = simulation.StopKnowledge.FORECAST,
    profiles: ProfilesOption = None,
    adaptive_batches: AdaptiveOption = False,
    slot: SlotOption = "60s",
    overhead: OverheadOption = "none",
    rates: RatesOption = "curve",
    placement: PlacementOption = None,
    deadlines: DeadlinesOption = None,
    elastic: ElasticOption = False,
    caps: CapsOption = False,
    optimum: OptimumOption = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; as many as there are cores.")] = None,
    results: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Grow this file of JSON lines; go on where it stops.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all rows as .csv, .json or .parquet at the end.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Begin --out anew; replace --export.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare policies over loads, clusters, wrong curves and seeds, with 95 % intervals.

    Every policy meets the same jobs, errors and failures under the same seed, so policies are compared seed by seed:
    the last column says whether one meets more or fewer deadlines than the first for more than chance. Interrupt it
    with Ctrl-C and run it again with the same --out: finished runs are not run twice.
    """
    from penstock.policies import split_policies

    source = simulation.source_named(trace)
    grid = simulation.Grid(
        policies=split_policies(policy), source=source,
        profiles=load_profiles(profiles, source, adaptive=adaptive_batches),
        clusters=_listed(cluster), loads=[_number(each) for each in _listed(loads)] if loads else [None],
        wrong_by=[parse_share(each) for each in _listed(wrong_by)], seeds=range(seed, seed + seeds),
        slot=parse_slot(slot), overhead=overhead, placement=placement,
        deadlines=parse_bounds(deadlines) if deadlines else None, caps=caps, elastic=elastic,
        doubts=parse_share(doubts), report_every_s=parse_duration(reports), failures=parse_failures(failures),
        optimum=optimum, until=parse_part(until), knowledge=knowledge, events=load_events(events),
        tenants=simulation.parse_tenants(tenants) if tenants else (), rates=simulation.PlacementRates.parse(rates),
        watts=simulation.parse_watts(watts) if watts else (),
    )  # fmt: skip
    _check_export(export, force)
    rows = run_over_seeds(grid, workers, results, anew=force)
    if export is not None:
        simulation.export_rows(rows, export)
        say(f"{len(rows)} rows written to {export}")
    found = rows.aggregates()
    print(json.dumps([each.as_dict() for each in found], indent=2)) if as_json else out.print(aggregate_table(found))


def run_over_seeds(
    grid: "simulation.Grid", workers: int | None, results: Path | None = None, *, anew: bool = False
) -> "simulation.SweepRows":
    """All rows of a grid, with a bar on stderr; what an interruption leaves is said."""
    grid.check()
    if results is None:
        with _stopped_by_signals(None), bars(["runs"], len(list(grid.cells()))) as update:
            return simulation.run_grid(grid, workers=workers, on_progress=lambda done, _: update([done]))
    with closing(simulation.ResultsFile(results, grid.identity(), anew=anew)) as file:
        kept = sum(cell.key in file.rows for cell in grid.cells())
        if kept:
            say(f"{kept} runs are in {results} already")
        with _stopped_by_signals(results), bars(["runs"], len(list(grid.cells()))) as update:
            return simulation.run_grid(grid, workers=workers, results=file, on_progress=lambda done, _: update([done]))


def aggregate_table(found: "Sequence[simulation.Aggregate]") -> Any:
    """One line per setting and policy."""
    headings, lines = simulation.aggregate_cells(found)
    table = plain_table(*headings, title=simulation.aggregate_title(found))
    for line in lines:
        table.add_row(*line)
    return table


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"a load of {text!r}", "a number above 0", "Try --loads 0.5,1,1.5") from None


def _check_export(export: Path | None, force: bool) -> None:
    if export is None:
        return
    if export.suffix not in (".csv", ".json", ".parquet"):
        raise InputError(f"cannot tell the format of {export}", "a name that ends in .csv, .json or .parquet")
    if export.exists() and not force:
        raise InputError(f"{export} exists already", hint="Choose another --export, or replace it with --force")


@contextmanager
def _stopped_by_signals(results: Path | None) -> Iterator[None]:
    """Ctrl-C and a plain kill end the workers too, and say what is left to do."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        complain("interrupted" + (f"; run it again to go on with {results}" if results else "; nothing was kept"))
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)
