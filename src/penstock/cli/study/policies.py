"""``penstock policies``: what can be simulated."""

import json
from typing import Annotated

import typer
from rich.table import Table

from penstock.cli.terminal.console import out


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the policies, one line each, with where they come from."""
    from penstock.simulate import known_policies

    known = known_policies()
    if as_json:
        print(json.dumps([{"policy": n, "summary": s, "source": p} for n, (s, p) in known.items()], indent=2))
        return
    table = Table(header_style="bold", box=None, pad_edge=False)
    for heading in ("policy", "what it does", "source"):
        table.add_column(heading, no_wrap=heading == "policy")
    for name, (summary, paper) in known.items():
        table.add_row(name, summary, paper)
    out.print(table)
