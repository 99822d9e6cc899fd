"""``penstock logs``: what a job printed, or prints."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect
from penstock.cli.jobs.arguments import JobArgument
from penstock.cli.terminal.console import say

if TYPE_CHECKING:
    from penstock.client import Client


def logs(
    job: JobArgument,
    following: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job is over.")] = False,
    worker: Annotated[str | None, typer.Option(help="Only this worker.")] = None,
) -> None:
    """Print a job's output, all workers together unless one is named."""
    with connect() as client:
        if following:
            follow(client, job, worker)
        else:
            _print_all(client, job, worker)


def follow(client: "Client", job: str, worker: str | None = None) -> None:
    """Output as it comes; Ctrl-C detaches and leaves the job alone."""
    try:
        for piece in client.follow_logs(job, worker=worker):
            sys.stdout.write(piece.text)
            sys.stdout.flush()
    except KeyboardInterrupt:
        say(f"\ndetached; the job goes on. penstock logs -f {job} follows it again")
        raise typer.Exit(130) from None


def _print_all(client: "Client", job: str, worker: str | None) -> None:
    cursor = None
    while True:
        page = client.logs(job, cursor=cursor, worker=worker)
        sys.stdout.write(page.text)
        if not page.text:
            return
        cursor = page.next
