"""``penstock pause``: take jobs out of scheduling for a while."""

from penstock.cli.connect import connect
from penstock.cli.jobs.arguments import JobsArgument
from penstock.cli.jobs.steering import steer


def pause(jobs: JobsArgument) -> None:
    """Take jobs, or all jobs of an array, out of scheduling; they save their state and give up their promise."""
    with connect() as client:
        for job in jobs:
            steer(job, client.pause, client.pause_array)
