"""``penstock run``: submit a job, follow its output, and end as it ends."""

from typing import TYPE_CHECKING

from penstock.cli.connect import connect
from penstock.cli.submission.attendance import attend
from penstock.cli.submission.description import describes_job
from penstock.cli.submission.submit import hand_in, tell_answer
from penstock.cli.terminal.console import say

if TYPE_CHECKING:
    from penstock.spec import JobFile


@describes_job
def run(file: "JobFile") -> None:
    """Submit a job, follow its output, and end with its exit code. Ctrl-C detaches; the job goes on."""
    with connect() as client:
        job = hand_in(client, file).job
        say(f"{job.id} submitted")
        tell_answer(job)
        attend(client, job.id)
