"""``penstock resume``: let a paused job, or the paused jobs of an array, ask again."""

from functools import partial
from typing import Annotated

import typer

from penstock.cli.connect import connect
from penstock.cli.jobs.arguments import JobArgument
from penstock.cli.jobs.steering import steer


def resume(
    job: JobArgument,
    deadline: Annotated[str | None, typer.Option(help='A new deadline: "6h", "friday 18:00".')] = None,
    best_effort: Annotated[bool, typer.Option("--best-effort", help="Without a deadline.")] = False,
) -> None:
    """Let a paused job, or the paused jobs of an array, ask again."""
    from penstock.spec import read_deadline

    deadline = None if deadline is None else read_deadline(deadline)
    with connect() as client:
        steer(
            job,
            partial(client.resume, deadline=deadline, best_effort=best_effort),
            partial(client.resume_array, deadline=deadline, best_effort=best_effort),
        )
