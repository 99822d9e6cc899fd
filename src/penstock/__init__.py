"""Penstock meters accelerators onto training jobs.

From Python as from the shell::

    import penstock

    job = penstock.Job(script="train.py", work="10_000 steps", deadline="6h")
    print(penstock.quote(job).reason)
    print(penstock.submit(job).id)

The server is the one ``PENSTOCK_SERVER`` names, else the local one, which is started if need be. Everything heavy is
imported when it is first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.spec import JobFile
    from penstock.wire import JobDetail, QuoteView


def Job(**keys: Any) -> "JobFile":  # noqa: N802
    """A job, with the names and units of a job file; relative paths start from the current directory."""
    from pathlib import Path

    from penstock.spec import job

    return job(**keys).located(Path.cwd())


def quote(job: "JobFile") -> "QuoteView":
    """What the job would be promised now; nothing is changed."""
    from penstock.client import reach
    from penstock.spec import to_mapping

    with reach() as client:
        return client.quote(to_mapping(job))


def submit(job: "JobFile") -> "JobDetail":
    """Hand the job in; the answer says what it is promised."""
    from penstock.client import reach
    from penstock.spec import to_mapping

    with reach() as client:
        return client.submit(to_mapping(job)).job


__all__ = ["Job", "quote", "submit"]
