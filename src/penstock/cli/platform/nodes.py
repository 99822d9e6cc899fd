"""``penstock nodes``: what there is to run on."""

from typing import Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table

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
    table = plain_table("node", "kind", "devices", "state", "jobs", "not used")
    for node in nodes:
        table.add_row(
            node.name, node.kind, str(len(node.devices)), node.state, ", ".join(node.jobs) or "-",
            "; ".join(node.unusable) or "-",
        )  # fmt: skip
    out.print(table)


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
