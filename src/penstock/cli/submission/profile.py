"""``penstock profile``: short runs of a job on a few device counts, so that quotes rest on measurements."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect
from penstock.cli.submission.description import as_spec, describes_job
from penstock.cli.terminal.console import interruptible, out, plain_table, say

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.spec import JobFile


@describes_job
def command(
    file: "JobFile",
    seconds: Annotated[float, typer.Option(min=5.0, help="How long to watch each width.")] = 12.0,
) -> None:
    """Measure how fast a job runs on a few device counts; each short run is cancelled when it has shown enough."""
    with connect() as client, interruptible():
        rates = measured(client, file, seconds)
    table = plain_table("devices", "steps/s", "speed-up")
    first = next((rate / count for count, rate in rates.items() if rate), 0.0)
    for count, rate in rates.items():
        table.add_row(str(count), f"{rate:.2f}" if rate else "-", f"{rate / first:.2f}x" if first else "-")
    out.print(table)
    if not first:
        say("no speed was seen: print lines such as `penstock: step=3 total=100`, or watch longer with --seconds")


def measured(client: "Client", file: "JobFile", seconds: float = 8.0) -> dict[int, float]:
    """Steps per second on a few widths; the server keeps its own, finer measurements."""
    from penstock.client import probe

    return probe(client, as_spec(file), seconds=seconds, say=say)
