"""``penstock cancel``: end jobs for good."""

from penstock.cli.connect import connect
from penstock.cli.jobs.arguments import JobsArgument
from penstock.cli.terminal.console import say


def cancel(jobs: JobsArgument) -> None:
    """End jobs for good."""
    with connect() as client:
        for job in jobs:
            say(f"{job} {client.cancel(job).state}")
