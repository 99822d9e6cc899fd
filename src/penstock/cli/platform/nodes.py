"""``penstock nodes``: what there is to run on."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table, say
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
def drain(
    node: NodeArgument,
    reason: Annotated[str, typer.Option(help="Why; shown with the node.")] = "",
    now: Annotated[
        bool,
        typer.Option(
            "--now/--when-done", help="Stop jobs that cannot resume as well, or let them end first (the default)."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Drain it even if that endangers promises.")] = False,
) -> None:
    """Take no more jobs there. Jobs that can resume save their state and go elsewhere; the others end there first.

    A drain that endangers promised deadlines is rejected, with the jobs, unless --force is given.
    """
    with connect() as client:
        for job in client.drained_jobs(node):
            say(f"{job.name} ({job.id}) {job.happens(now=now)}")
        found = next(each for each in client.drain(node, reason=reason, now=now, force=force) if each.name == node)
        say(f"{node} is {found.state}; penstock nodes undrain {node} takes it back")


@app.command()
def undrain(node: NodeArgument) -> None:
    """Use it again."""
    with connect() as client:
        client.undrain(node)
        say(f"{node} takes jobs again")
