"""``penstock whatif``: the server's own past under another policy, on another cluster, with other shares."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table, write_page
from penstock.core import InputError, counted

if TYPE_CHECKING:
    from penstock.wire import WhatIfReport, WhatIfRequest

_INCONCLUSIVE = 3


def command(
    since: Annotated[str, typer.Option(help="How long ago the past begins, or when: 30d, 2026-12-01T00:00.")] = "30d",
    until: Annotated[str | None, typer.Option(help="When it ends (default: now).")] = None,
    policy: Annotated[str, typer.Option(help="Policies, separated by commas: fifo,srtf:order=device-time.")] = "",
    devices: Annotated[str, typer.Option(help="+8 or -8 devices, or 64 in all.")] = "",
    cluster: Annotated[str, typer.Option(help="Another cluster altogether: 4x8.")] = "",
    tenants: Annotated[str, typer.Option(help="Other shares of tenants: vision=2,speech=1.")] = "",
    anyway: Annotated[bool, typer.Option("--anyway", help="Compare even where the past is not reproduced.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Read this data directory, without its server.")] = None,
    database: Annotated[str | None, typer.Option(help="Read this database, without its server.")] = None,
    html: Annotated[Path | None, typer.Option("--out", metavar="FILE.html", help="Write a page for people.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Replay the server's own past under other rules, beside the past itself replayed.

    Ends with 3 where the past is not reproduced well enough to conclude anything.
    """
    from penstock.policies import split_policies
    from penstock.simulate import parse_shares, scenarios_of
    from penstock.wire import WhatIfRequest

    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"A study cannot be written to {html}", "a file that ends in .html", "Try --out study.html")
    shares = parse_shares(tenants)
    wanted = WhatIfRequest(
        since=since, until=until, policies=split_policies(policy), devices=devices, cluster=cluster, shares=shares,
        anyway=anyway,
    )  # fmt: skip
    scenarios_of(wanted.policies, devices=devices, cluster=cluster, shares=shares)
    report = _offline(wanted, data_dir, database) if data_dir or database else _asked(wanted)
    if html is not None:
        _write(html, report)
    if as_json:
        print_json(report)
    elif html is None:
        _tell(report)
    if not (report.conclusive or anyway):
        raise typer.Exit(_INCONCLUSIVE)


def _asked(wanted: "WhatIfRequest") -> "WhatIfReport":
    with connect() as client:
        return client.whatif(wanted)


def _offline(wanted: "WhatIfRequest", data_dir: Path | None, database: str | None) -> "WhatIfReport":
    from penstock.control import study_database
    from penstock.serve import load_config, sqlite_file

    url = database or load_config({"data_dir": data_dir}).database_url
    file = sqlite_file(url)
    if file is not None and not file.exists():
        raise InputError(f"{file} does not exist", "the database of a server", "Give another --data-dir")
    return study_database(url, wanted, time.time())


def _write(page: Path, report: "WhatIfReport") -> None:
    from penstock.control import whatif_page

    write_page(page, whatif_page(report))


def _tell(report: "WhatIfReport") -> None:
    from penstock.control import WHATIF_COLUMNS, whatif_rows, whatif_sentences

    out.print(f"{report.since:%Y-%m-%d %H:%M} to {report.until:%Y-%m-%d %H:%M} UTC: {counted(report.jobs, 'job')}")
    table = plain_table(*WHATIF_COLUMNS)
    for row in whatif_rows(report):
        table.add_row(*row)
    out.print(table)
    for sentence in whatif_sentences(report):
        out.print(sentence, soft_wrap=True)
