"""``penstock wait``: until jobs are over."""

import math
import time
from typing import Annotated

import typer

from penstock.cli.connect import connect
from penstock.cli.jobs.arguments import JobsArgument
from penstock.cli.jobs.ending import await_end, exit_code
from penstock.cli.terminal.console import say


def wait(
    jobs: JobsArgument,
    timeout: Annotated[str | None, typer.Option(help='Give up after "10m"; the exit code is 124 then.')] = None,
) -> None:
    """Wait until jobs are over, and end with the exit code of the first that did not finish."""
    from penstock.core import parse_duration

    deadline = time.monotonic() + (math.inf if timeout is None else parse_duration(timeout))
    codes = []
    with connect() as client:
        for job in jobs:
            ended = await_end(client, job, deadline)
            say(f"{job} {ended.state}{f': {ended.reason}' if ended.reason else ''}")
            codes.append(exit_code(ended))
    raise typer.Exit(next((code for code in codes if code), 0))
