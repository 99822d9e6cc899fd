"""``penstock resume``: let a paused job ask again."""

from typing import Annotated

import typer

from penstock.cli.connect import connect
from penstock.cli.jobs.arguments import JobArgument
from penstock.cli.terminal.console import say


def resume(
    job: JobArgument,
    deadline: Annotated[str | None, typer.Option(help='A new deadline: "6h", "friday 18:00".')] = None,
    best_effort: Annotated[bool, typer.Option("--best-effort", help="Without a deadline.")] = False,
) -> None:
    """Let a paused job ask again."""
    from penstock.spec import read_deadline

    deadline = None if deadline is None else read_deadline(deadline)
    with connect() as client:
        say(f"{job} {client.resume(job, deadline=deadline, best_effort=best_effort).state}")
