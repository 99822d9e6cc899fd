"""``penstock pause``: take jobs out of scheduling for a while."""

from penstock.cli.connect import connect
from penstock.cli.jobs.arguments import JobsArgument
from penstock.cli.terminal.console import say


def pause(jobs: JobsArgument) -> None:
    """Take jobs out of scheduling; they save their state and give up their promise."""
    with connect() as client:
        for job in jobs:
            say(f"{job} {client.pause(job).state}")
