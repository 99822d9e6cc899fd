"""``penstock events``: the log, in order."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, say
from penstock.cli.terminal.format import clock
from penstock.core import InputError

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.wire import EventView


def events(
    job: Annotated[str | None, typer.Argument(help="Only this job, by id or name.")] = None,
    after: Annotated[
        int | None, typer.Option(min=0, help="The first entries after this number, instead of the newest.")
    ] = None,
    before: Annotated[int | None, typer.Option(min=0, help="The newest entries before this number.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many entries (default: 100).")] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with those to come; Ctrl-C ends it.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="The platform's own bookkeeping too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """The log: what was recorded, in order. The newest entries, unless --after says otherwise; JSON has all of each."""
    if follow and before is not None:
        raise InputError("--before with --follow", "one of them", "Leave one out")
    with connect() as client:
        if follow:
            _follow(client, None if job is None else client.job(job).id, after or 0, everything, as_json)
            return
        page = client.events(
            job, after=after or 0, before=before, newest=after is None, bookkeeping=everything or as_json, limit=limit
        )
    if as_json:
        print_json(page)
        return
    for event in page.events:
        out.print(_line(event))
    if after is None and len(page.events) == limit:
        say(f"older entries: penstock events{f' {job}' if job else ''} --before {page.events[0].seq}")


def _follow(client: "Client", job: str | None, after: int, everything: bool, as_json: bool) -> None:
    """What is recorded from now on, or after a number; JSON comes line by line."""
    from penstock.wire import BOOKKEEPING

    try:
        for event in client.follow_events(after=after or None):
            if job in (None, event.job_id) and (everything or event.kind not in BOOKKEEPING):
                print(event.model_dump_json() if as_json else _line(event), flush=True)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _line(event: "EventView") -> str:
    return f"{event.seq:>6}  {clock(event.at)}  {event.kind:<16} {event.job_id or ''}"
