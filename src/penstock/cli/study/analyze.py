"""``penstock analyze``: what a trace, or the platform's own past, tells about a cluster and what to do about it."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table, write_page
from penstock.core import Cluster, InputError, counted, format_duration

if TYPE_CHECKING:
    from penstock.simulate import Analysis, Observed, Section


def command(
    trace: Annotated[Path | None, typer.Argument(help="A trace in any format we read; else one's own past.")] = None,
    cluster: Annotated[str, typer.Option(help="The cluster the trace comes from: 16x8.")] = "",
    samples: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="How busy devices were: time, job, device, busy.")
    ] = None,
    since: Annotated[str, typer.Option(help="How long ago one's own past begins, or when: 30d, 2026-12-01.")] = "30d",
    until: Annotated[str | None, typer.Option(help="When it ends (default: now).")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Read the past of this data directory.")] = None,
    database: Annotated[str | None, typer.Option(help="Read the past of this database.")] = None,
    html: Annotated[Path | None, typer.Option("--out", metavar="FILE.html", help="Write a page for people.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what jobs tell about a cluster: use, waiting, sizes, failures, who could give back what.

    Each finding comes with the action it suggests.
    """
    from penstock.simulate import analysis_page, analyze, bubbles_of, read_samples

    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"An analysis cannot be written to {html}", "a file that ends in .html", "Try --out page.html")
    if trace is not None and (data_dir or database):
        raise InputError("both a trace and a past of one's own", "one of them", "Leave out --data-dir and --database")
    observed = _trace(trace, cluster) if trace is not None else _past(since, until, data_dir, database)
    found = analyze(observed, bubbles_of(read_samples(samples)) if samples else None)
    if html is not None:
        write_page(html, analysis_page(found))
    if as_json:
        print_json(found.as_dict())
    elif html is None:
        _tell(found)


def _trace(path: Path, cluster: str) -> "Observed":
    from penstock.simulate import observe_trace, read_trace

    return observe_trace(read_trace(path), Cluster.parse(cluster).device_count if cluster else None)


def _past(since: str, until: str | None, data_dir: Path | None, database: str | None) -> "Observed":
    from penstock.control import observe_database, past_moment
    from penstock.serve import load_config, sqlite_file

    url = database or load_config({"data_dir": data_dir}).database_url
    file = sqlite_file(url)
    if file is not None and not file.exists():
        raise InputError(f"{file} does not exist", "the database of a server", "Give a trace, or another --data-dir")
    ends = min(past_moment(until, time.time()), time.time()) if until else time.time()
    return observe_database(url, max(0.0, past_moment(since, ends)), ends)


def _tell(found: "Analysis") -> None:
    devices = f"{found.devices:,} devices, " if found.devices else ""
    out.print(
        f"{found.name}: {counted(found.jobs, 'job')} over {format_duration(found.span_s)}, {devices}"
        f"{found.device_hours:,.0f} device-hours",
        soft_wrap=True,
    )
    for section in found.sections:
        _tell_section(section)
    if found.advice:
        out.print("\nWhat to do")
    for number, each in enumerate(found.advice, 1):
        out.print(f"{number}. {each.title}. {each.text}\n   → {each.action}", soft_wrap=True, markup=False)
    for note in found.notes:
        out.print(note, soft_wrap=True, markup=False)


def _tell_section(section: "Section") -> None:
    out.print(f"\n{section.title}")
    if section.unknown:
        out.print(f"not known here: it takes {section.unknown}", soft_wrap=True)
        return
    table = plain_table(*section.columns)
    for row in section.rows:
        table.add_row(*row)
    out.print(table)
