"""Jobs and job arrays, steered by the same verbs: what is no job is looked for among the arrays."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.cli.terminal.console import say
from penstock.cli.terminal.format import state_counts

if TYPE_CHECKING:
    from penstock.wire import ArrayView, JobDetail


def steer(
    name: str, job: "Callable[[str], JobDetail]", array: "Callable[[str], ArrayView]", *, later: str = ""
) -> None:
    """Do it to a job, or else to an array, and say where that stands now; a job that runs has ``later`` added."""
    from penstock.wire import MissingError

    try:
        state = job(name).state
        say(f"{name} {state}; {later}" if later and state == "running" else f"{name} {state}")
    except MissingError as no_job:
        try:
            found = array(name)
        except MissingError:
            raise no_job from None
        say(f"{found.id} {found.name}: {state_counts(found)}")
