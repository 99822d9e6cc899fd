"""``penstock nodes``: what there is to run on."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table
from penstock.cli.terminal.format import ago

if TYPE_CHECKING:
    from penstock.wire import NodeView

app = typer.Typer(invoke_without_command=True, help="What there is to run on; drain and undrain.")
NodeArgument = Annotated[str, typer.Argument(help="The name of a node.")]


@app.callback()
def listing(context: typer.Context, as_json: JsonOption = False) -> None:
    """List the nodes."""
    if context.invoked_subcommand is not None:
        return
    with connect() as client:
        nodes = client.nodes()
    if as_json:
        print_json(nodes)
        return
    table = plain_table("node", "kind", "devices", "state", "jobs", "checked", "not used")
    for node in nodes:
        table.add_row(
            node.name, node.kind, str(len(node.devices)), node.state, ", ".join(node.jobs) or "-", _checked(node),
            "; ".join(node.unusable) or "-",
        )  # fmt: skip
    out.print(table)


def _checked(node: "NodeView") -> str:
    return f"{node.checked}, {ago(node.checked_at)}" if node.checked_at is not None else "-"


@app.command()
def drain(node: NodeArgument, reason: Annotated[str, typer.Option(help="Why; shown with the node.")] = "") -> None:
    """No more jobs there; those that run save their state and go elsewhere."""
    with connect() as client:
        client.drain(node, reason=reason)


@app.command()
def undrain(node: NodeArgument) -> None:
    """Use it again."""
    with connect() as client:
        client.undrain(node)
