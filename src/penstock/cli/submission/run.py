"""``penstock run``: submit a job, follow its output, and end as it ends."""

import sys
import time
from typing import TYPE_CHECKING

from penstock.cli.connect import connect
from penstock.cli.jobs.logs import follow
from penstock.cli.submission.description import describes_job
from penstock.cli.submission.submit import DECLINED, hand_in, tell_answer
from penstock.cli.terminal.console import complain, say

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.spec import JobFile
    from penstock.wire import JobDetail

EXIT_CODES = {"finished": 0, "failed": 1, "declined": DECLINED, "cancelled": 4}
"""What ``run`` ends with where the job itself gives no code."""


@describes_job
def run(file: "JobFile") -> None:
    """Submit a job, follow its output, and end with its exit code. Ctrl-C detaches; the job goes on."""
    with connect() as client:
        job = hand_in(client, file).job
        say(f"{job.id} submitted")
        tell_answer(job)
        follow(client, job.id)
        ended = _await_end(client, job.id)
    if ended.state != "finished":
        complain(f"{ended.id} {ended.state}: {ended.reason or (ended.quote.reason if ended.quote else '')}")
    sys.exit(ended.exit_code or EXIT_CODES.get(ended.state, 1))


def _await_end(client: "Client", job: str) -> "JobDetail":
    """The last line may be read before the end is known."""
    while (detail := client.job(job)).state not in EXIT_CODES:
        time.sleep(0.1)
    return detail
