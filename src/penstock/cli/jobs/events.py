"""``penstock events``: the log, in order."""

from typing import Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out
from penstock.cli.terminal.format import clock


def events(
    job: Annotated[str | None, typer.Argument(help="Only this job.")] = None,
    after: Annotated[int, typer.Option(min=0, help="Only those after this number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many.")] = 100,
    everything: Annotated[bool, typer.Option("--all", help="The platform's own bookkeeping too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """The log: what was recorded, in order. JSON has all of it."""
    from penstock.wire import BOOKKEEPING

    with connect() as client:
        page = client.events(job, after=after, limit=limit)
    if as_json:
        print_json(page)
        return
    shown = (event for event in page.events if everything or event.kind not in BOOKKEEPING)
    for event in shown:
        out.print(f"{event.seq:>6}  {clock(event.at)}  {event.kind:<16} {event.job_id or ''}")
