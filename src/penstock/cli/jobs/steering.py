"""Jobs and job arrays, taken by the same verbs: a name of no job is looked up among the arrays."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from penstock.cli.terminal.console import say
from penstock.cli.terminal.format import state_counts

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.wire import ArrayView, JobDetail, JobView

_J = TypeVar("_J")
_A = TypeVar("_A")
_PAGE = 1000


def steer(
    name: str, job: "Callable[[str], JobDetail]", array: "Callable[[str], ArrayView]", *, later: str = ""
) -> None:
    """Do it to a job, or else to an array, and say where that stands now; a job that runs has ``later`` added."""
    from penstock.wire import JobDetail

    done = job_or_array(name, job, array)
    if isinstance(done, JobDetail):
        say(f"{name} {done.state}; {later}" if later and done.state == "running" else f"{name} {done.state}")
    else:
        say(array_line(done))


def job_or_array(name: str, job: Callable[[str], _J], array: Callable[[str], _A]) -> _J | _A:
    """Return what ``job`` answers for the name, or what ``array`` answers if no job has that name."""
    from penstock.wire import MissingError

    try:
        return job(name)
    except MissingError as no_job:
        try:
            return array(name)
        except MissingError:
            raise no_job from None


def array_line(array: "ArrayView") -> str:
    return f"{array.id} {array.name}: {state_counts(array)}"


def array_jobs(client: "Client", array: str) -> "list[JobView]":
    """Return the jobs of an array by ascending number."""
    page = client.jobs(array=array, limit=_PAGE)
    found = list(page.jobs)
    while page.next is not None:
        page = client.jobs(array=array, limit=_PAGE, cursor=page.next)
        found += page.jobs
    return found[::-1]
