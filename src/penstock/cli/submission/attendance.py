"""Staying with a job that was submitted: its preparation, its output and its end, which is the verb's own."""

import sys
import time
from typing import TYPE_CHECKING

from penstock.cli.jobs.ending import await_end, exit_code
from penstock.cli.jobs.logs import detaching, follow
from penstock.cli.terminal.console import complain, say

if TYPE_CHECKING:
    from penstock.client import Client

_POLL_S = 0.5


def attend(client: "Client", job: str) -> None:
    """Until the job is over; ends with its exit code. Ctrl-C detaches, and the job goes on."""
    with detaching(job):
        _watch_preparation(client, job)
    follow(client, job)
    ended = await_end(client, job)  # the last line may be read before the end is known
    if ended.state != "finished":
        complain(f"{ended.id} {ended.state}: {ended.reason or (ended.quote.reason if ended.quote else '')}")
    sys.exit(exit_code(ended))


def _watch_preparation(client: "Client", job: str) -> None:
    """What is done to make it ready, line by line."""
    told = ""
    while (detail := client.job(job)).state in ("blocked", "preparing"):
        if detail.reason not in ("", told):
            told = detail.reason
            say(f"{detail.state}: {told}")
        time.sleep(_POLL_S)
