"""``penstock submit``: a job file, flags, or both, handed in."""

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.jobs.ending import DECLINED
from penstock.cli.submission.attendance import attend
from penstock.cli.submission.description import as_spec, describes_job
from penstock.cli.submission.profile import measured
from penstock.cli.terminal.console import interruptible, out, say
from penstock.cli.terminal.format import deadline_line, quote_lines, value_lines
from penstock.core import counted

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.spec import JobFile
    from penstock.wire import JobDetail, JobView, Submission


@describes_job
def submit(
    file: "JobFile",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show exactly what would be submitted.")] = False,
    array: Annotated[
        str | None, typer.Option("--array", metavar="FIRST..LAST", help="One job for each index, all in one request.")
    ] = None,
    following: Annotated[
        bool, typer.Option("--follow", "-f", help="Stay until it is over: preparation, output, its exit code.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Submit a job and say what it is promised."""
    if dry_run:
        from penstock.spec import dump_yaml, to_mapping

        if as_json:
            print_json(to_mapping(file))
            return
        print(dump_yaml(file), end="")
        out.print(f"# would run: {' '.join(file.command_line())}", soft_wrap=True)
        return
    if array is not None:
        _hand_in_array(file, array, as_json=as_json)
        return
    with connect() as client:
        answer = hand_in(client, file)
        print_json(answer) if as_json else tell_submission(answer.job)
        end_if_rejected(answer.job.state)
        if following:
            attend(client, answer.job.id)


def tell_submission(job: "JobDetail") -> None:
    """Print the id on stdout, the answer beside it."""
    print(job.id)
    tell_answer(job)
    if job.state != "declined":
        say(f"follow it: penstock logs -f {job.id}")


def end_if_rejected(answer: str) -> None:
    """End with the exit code of a rejected job where that is its state or the verdict of its quote."""
    if answer in ("declined", "refused"):
        raise typer.Exit(DECLINED)


def tell_answer(job: "JobDetail") -> None:
    """The deadline as it was understood, and what the job is promised."""
    if job.deadline is not None:
        say(deadline_line(job.deadline))
    for line in value_lines(job):
        say(line)
    for line in quote_lines(job.quote) if job.quote else [_unanswered(job)]:
        say(line)


def hand_in(client: "Client", file: "JobFile") -> "Submission":
    """Measured before, if the job asks for that and nobody has."""
    from penstock.spec import Profiling

    for remark in remarks(file):
        say(remark)
    if file.profile is Profiling.FIRST and client.quote(as_spec(file)).speed == "guessed":
        with interruptible():
            measured(client, file)
    return client.submit(as_spec(file), key=str(uuid.uuid4()))


def remarks(file: "JobFile") -> Iterator[str]:
    """What is not done as the person may expect from other launchers."""
    launcher = file.launcher
    if launcher is not None and launcher.command:
        asked = f", on {launcher.devices} devices" if launcher.devices is not None and file.devices is None else ""
        yield f"without {launcher.name}: Penstock starts a worker for each device{asked}, with the same variables"
    elif launcher is not None:
        yield (
            f"{launcher.name} starts workers itself, on every device, and so does Penstock: give the script alone "
            "(script: train.py), or devices: 1"
        )
    elif file.devices is None and file.model is None and not file.says_resumable:
        yield "on one device: nothing says that it can change their number; devices: 2 asks for more"


def _hand_in_array(file: "JobFile", array: str, *, as_json: bool) -> None:
    with connect() as client:
        answer = client.submit_array(as_spec(file), array, key=str(uuid.uuid4()))
    if as_json:
        print_json(answer)
        return
    for job_id in answer.jobs:
        print(job_id)
    say(f"{counted(len(answer.jobs), 'job')}, called {file.name}-{array.partition('..')[0].strip()} and so on")
    say(f"all of them: penstock ps --array {answer.id}, penstock cancel {answer.id}")


def _unanswered(job: "JobView") -> str:
    if job.state == "blocked":
        return f"{job.reason} and is answered then: penstock why says what it waits for"
    if job.state == "preparing":
        return "it is being prepared and answered then: penstock show says what it is promised"
    return "it is answered in the next round"
