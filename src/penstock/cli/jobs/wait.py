"""``penstock wait``: until jobs are over."""

import math
import time
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect
from penstock.cli.jobs.arguments import JobsArgument
from penstock.cli.jobs.ending import await_end, exit_code
from penstock.cli.jobs.steering import array_jobs, job_or_array
from penstock.cli.terminal.console import say

if TYPE_CHECKING:
    from penstock.client import Client


def wait(
    jobs: JobsArgument,
    timeout: Annotated[str | None, typer.Option(help='Give up after "10m"; the exit code is 124 then.')] = None,
) -> None:
    """Wait until jobs are over, and end with the exit code of the first that did not finish."""
    from penstock.core import parse_duration

    deadline = time.monotonic() + (math.inf if timeout is None else parse_duration(timeout))
    with connect() as client:
        codes = [code for name in jobs for code in _ended(client, name, deadline)]
    raise typer.Exit(next((code for code in codes if code), 0))


def _ended(client: "Client", name: str, deadline: float) -> list[int]:
    """Return the exit codes of a job, or of the jobs of an array, when they are over."""

    def of_job(job: str) -> int:
        ended = await_end(client, job, deadline)
        say(f"{job} {ended.state}{f': {ended.reason}' if ended.reason else ''}")
        return exit_code(ended)

    return job_or_array(
        name, lambda job: [of_job(job)], lambda array: [of_job(job.id) for job in array_jobs(client, array)]
    )
