"""``penstock cancel``, ``pause``, ``resume``: telling a job what to do."""

from typing import Annotated

import typer

from penstock.cli.connect import connect
from penstock.cli.console import say
from penstock.cli.logs import JobArgument

JobsArgument = Annotated[list[str], typer.Argument(help="The ids of jobs.")]


def cancel(jobs: JobsArgument) -> None:
    """End jobs for good."""
    with connect() as client:
        for job in jobs:
            say(f"{job} {client.cancel(job).state}")


def pause(jobs: JobsArgument) -> None:
    """Take jobs out of scheduling; they save their state and give up their promise."""
    with connect() as client:
        for job in jobs:
            say(f"{job} {client.pause(job).state}")


def resume(
    job: JobArgument,
    deadline: Annotated[str | None, typer.Option(help="A new deadline.")] = None,
    best_effort: Annotated[bool, typer.Option("--best-effort", help="Without a deadline.")] = False,
) -> None:
    """Let a paused job ask again."""
    with connect() as client:
        say(f"{job} {client.resume(job, deadline=deadline, best_effort=best_effort).state}")
