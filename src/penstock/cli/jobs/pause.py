"""``penstock pause``: take jobs out of scheduling for a while."""

from functools import partial
from typing import Annotated, Any

import typer

from penstock.cli.connect import connect
from penstock.cli.jobs.arguments import JobsArgument
from penstock.cli.jobs.steering import steer


def pause(
    jobs: JobsArgument,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Also a job that cannot resume: its work is lost and it begins again.")
    ] = False,
    at_checkpoint: Annotated[
        bool, typer.Option("--at-checkpoint", help="Wait for the next checkpoint of a job that can resume.")
    ] = False,
) -> None:
    """Take jobs, or all jobs of an array, out of scheduling; they save their state and give up their promise."""
    how: dict[str, Any] = {"anyway": anyway, "at_checkpoint": at_checkpoint}
    with connect() as client:
        for job in jobs:
            later = "it is paused at its next checkpoint" if at_checkpoint else ""
            steer(job, partial(client.pause, **how), partial(client.pause_array, **how), later=later)
