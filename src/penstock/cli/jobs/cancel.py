"""``penstock cancel``: end jobs and job arrays for good."""

from penstock.cli.connect import connect
from penstock.cli.jobs.arguments import JobsArgument
from penstock.cli.jobs.steering import steer


def cancel(jobs: JobsArgument) -> None:
    """End jobs for good, or every job of an array."""
    with connect() as client:
        for job in jobs:
            steer(job, client.cancel, client.cancel_array)
