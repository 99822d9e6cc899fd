"""``penstock exec``: a look at a job from beside its workers."""

from typing import Annotated

import typer

from penstock.cli.connect import connect
from penstock.cli.jobs.arguments import JobArgument
from penstock.cli.jobs.logs import printer


def execute(
    job: JobArgument,
    command: Annotated[list[str], typer.Argument(help="A program and its arguments, after --.")],
    raw: Annotated[bool, typer.Option("--raw", help="Colours and control characters too, also on a terminal.")] = False,
) -> None:
    """Run a command beside the workers of a running job, and end with its exit code."""
    with connect() as client, printer(raw) as show:
        code = client.execute(job, command, show)
    raise typer.Exit(code)
