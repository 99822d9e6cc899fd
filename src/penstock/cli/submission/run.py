"""``penstock run``: submit a job, follow its output, and end as it ends."""

import sys
from typing import TYPE_CHECKING

from penstock.cli.connect import connect
from penstock.cli.jobs.ending import await_end, exit_code
from penstock.cli.jobs.logs import follow
from penstock.cli.submission.description import describes_job
from penstock.cli.submission.submit import hand_in, tell_answer
from penstock.cli.terminal.console import complain, say

if TYPE_CHECKING:
    from penstock.spec import JobFile


@describes_job
def run(file: "JobFile") -> None:
    """Submit a job, follow its output, and end with its exit code. Ctrl-C detaches; the job goes on."""
    with connect() as client:
        job = hand_in(client, file).job
        say(f"{job.id} submitted")
        tell_answer(job)
        follow(client, job.id)
        ended = await_end(client, job.id)  # the last line may be read before the end is known
    if ended.state != "finished":
        complain(f"{ended.id} {ended.state}: {ended.reason or (ended.quote.reason if ended.quote else '')}")
    sys.exit(exit_code(ended))
