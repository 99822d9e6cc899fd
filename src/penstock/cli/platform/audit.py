"""``penstock audit``: who did what."""

from typing import Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table
from penstock.cli.terminal.format import clock


def audit(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most so many, the newest.")] = 50,
    before: Annotated[int | None, typer.Option(min=0, help="Only those before this number.")] = None,
    action: Annotated[str | None, typer.Option(help='Only one kind of action, such as "create token".')] = None,
    as_json: JsonOption = False,
) -> None:
    """Who did what, when, from where, and how it went (admins only). The newest come first."""
    with connect() as client:
        page = client.audit(limit=limit, before=before, action=action)
    if as_json:
        print_json(page)
        return
    table = plain_table("number", "at", "who", "from", "did", "to what", "result")
    for entry in page.entries:
        table.add_row(
            str(entry.seq), clock(entry.at), entry.actor or "-", entry.address or "-", entry.action,
            entry.target or "-", entry.result,
        )  # fmt: skip
    out.print(table)
