"""``penstock submit``, ``penstock quote`` and ``penstock run``: a job file, flags, or both."""

import sys
import time
import uuid
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.console import complain, interruptible, out, say
from penstock.cli.format import quote_lines
from penstock.cli.job_options import as_spec, describes_job
from penstock.cli.logs import follow
from penstock.cli.profile import measured

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.spec import JobFile
    from penstock.wire import JobDetail, Submission

EXIT_CODES = {"finished": 0, "failed": 1, "declined": 3, "cancelled": 4}
"""What ``run`` ends with where the job itself gives no code."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@describes_job
def submit(
    file: "JobFile",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show exactly what would be submitted.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Submit a job and say what it is promised."""
    if dry_run:
        from penstock.spec import dump_yaml

        print(dump_yaml(file), end="")
        out.print(f"# would run: {' '.join(file.command_line())}")
        return
    with connect() as client:
        answer = _hand_in(client, file)
    if as_json:
        print_json(answer)
        return
    print(answer.job.id)
    for line in quote_lines(answer.job.quote) if answer.job.quote else ["it is answered in the next round"]:
        say(line)
    say(f"follow it: penstock logs -f {answer.job.id}")


@describes_job
def quote(
    file: "JobFile",
    measure: Annotated[bool, typer.Option("--measure", help="Measure its speed first, in short runs.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what a job would be promised now, without submitting it."""
    with connect() as client, interruptible():
        if measure:
            measured(client, file)
        answer = client.quote(as_spec(file))
    if as_json:
        print_json(answer)
    else:
        out.print("\n".join(quote_lines(answer)), soft_wrap=True)


@describes_job
def run(file: "JobFile") -> None:
    """Submit a job, follow its output, and end with its exit code. Ctrl-C detaches; the job goes on."""
    with connect() as client:
        job = _hand_in(client, file).job
        say(f"{job.id} submitted")
        follow(client, job.id)
        ended = _await_end(client, job.id)
    if ended.state != "finished":
        complain(f"{ended.id} {ended.state}: {ended.reason or (ended.quote.reason if ended.quote else '')}")
    sys.exit(ended.exit_code or EXIT_CODES.get(ended.state, 1))


def _hand_in(client: "Client", file: "JobFile") -> "Submission":
    """Measured before, if the job asks for that and nobody has."""
    from penstock.spec import Profiling

    if file.profile is Profiling.FIRST and client.quote(as_spec(file)).speed == "guessed":
        with interruptible():
            measured(client, file)
    return client.submit(as_spec(file), key=str(uuid.uuid4()))


def _await_end(client: "Client", job: str) -> "JobDetail":
    """The last line may be read before the end is known."""
    while (detail := client.job(job)).state not in EXIT_CODES:
        time.sleep(0.1)
    return detail
