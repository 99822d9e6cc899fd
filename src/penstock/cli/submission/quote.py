"""``penstock quote``: what a job would be promised, without submitting it."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.submission.description import as_spec, describes_job
from penstock.cli.submission.profile import measured
from penstock.cli.submission.submit import end_if_rejected
from penstock.cli.terminal.console import interruptible, out
from penstock.cli.terminal.format import quote_lines

if TYPE_CHECKING:
    from penstock.spec import JobFile


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
        lines = quote_lines(answer)
        if answer.counter_offer is not None:
            lines.append("a quote holds no devices: submit the job, and an offer is held for a while")
        out.print("\n".join(lines), soft_wrap=True)
    end_if_rejected(answer.verdict)
