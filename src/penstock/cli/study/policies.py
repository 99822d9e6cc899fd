"""``penstock policies``: what can be simulated."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from penstock.cli.terminal.console import out

if TYPE_CHECKING:
    from penstock.simulate import KnownPolicy


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the policies, with where they come from and what can be set about them."""
    from penstock.simulate import known_policies

    known = known_policies()
    if as_json:
        print(json.dumps([_as_dict(name, policy) for name, policy in known.items()], indent=2))
        return
    table = Table(header_style="bold", box=None, pad_edge=False)
    for heading in ("policy", "what it does", "source"):
        table.add_column(heading, no_wrap=heading == "policy")
    for name, policy in known.items():
        table.add_row(name, policy.summary, policy.source)
        for parameter in policy.parameters:
            table.add_row("", Text(f"  {parameter}", style="dim"), "")
    out.print(table)
    out.print("\nSet what is listed: --policy srtf:order=device-time. Bring your own: --policy file.py:Class.")


def _as_dict(name: str, policy: "KnownPolicy") -> dict[str, Any]:
    told = [parameter.as_dict() for parameter in policy.parameters]
    return {"policy": name, "summary": policy.summary, "source": policy.source, "parameters": told}
