"""``penstock logs``: what a job printed, or prints."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect
from penstock.cli.jobs.arguments import JobArgument, as_sent
from penstock.cli.jobs.steering import array_jobs, job_or_array
from penstock.cli.terminal.console import say
from penstock.cli.terminal.control_characters import PlainStream

if TYPE_CHECKING:
    from penstock.client import Client, LogPiece


def logs(
    job: JobArgument,
    following: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job is over.")] = False,
    worker: Annotated[str | None, typer.Option(help="Only this worker.")] = None,
    tail: Annotated[int | None, typer.Option("--tail", "-n", min=0, help="Only so many lines from the end.")] = None,
    since: Annotated[
        str | None, typer.Option(help='Only what was written since: "10m" ago, "14:30", "2026-12-01T18:00".')
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Colours and control characters too, also on a terminal.")] = False,
) -> None:
    """Print a job's output, all workers together unless one is named. Of an array: one job after the other."""
    since = as_sent(since)

    def print_one(one: str) -> None:
        cursor = None
        if tail is not None:
            cursor = _print_end(client.follow_logs(one, worker=worker, since=since, until_now=True), tail, show)
        if following or tail is None:
            for piece in client.follow_logs(one, cursor=cursor, worker=worker, since=since, until_now=not following):
                show(piece.text)
        if not following:
            _say_why_stopped(client, one)

    def print_array(array: str) -> None:
        for one in array_jobs(client, array):
            show(f"[{one.name} ({one.id})]\n")
            print_one(one.id)

    with connect() as client, detaching(job), printer(raw) as show:
        job_or_array(job, print_one, print_array)


def _say_why_stopped(client: "Client", job: str) -> None:
    """Output that ends because others have the devices is not the end."""
    reason = client.job(job).reason
    if reason.startswith("suspended: "):
        say(reason)


def follow(client: "Client", job: str) -> None:
    """Output as it comes; Ctrl-C detaches and leaves the job alone."""
    with detaching(job), printer(raw=False) as show:
        for piece in client.follow_logs(job):
            show(piece.text)


@contextmanager
def detaching(job: str) -> Iterator[None]:
    """Ctrl-C ends the watching and not the job."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"\ndetached; the job goes on. penstock logs -f {job} follows it again")
        raise typer.Exit(130) from None


def _print_end(pieces: Iterable["LogPiece"], lines: int, show: Callable[[str], None]) -> str | None:
    """The last lines there are, and the cursor behind them."""
    kept, begun, cursor = deque[str](maxlen=lines), "", None
    for piece in pieces:
        *whole, begun = (begun + piece.text).split("\n")
        kept.extend(line + "\n" for line in whole)
        cursor = piece.cursor
    if begun:
        kept.append(begun)
    show("".join(kept))
    return cursor


@contextmanager
def printer(raw: bool) -> Iterator[Callable[[str], None]]:
    """What shows pieces of output: as they are in a pipe, without anything that a terminal would obey on one."""
    stream = PlainStream()
    plain = sys.stdout.isatty() and not raw

    def show(text: str) -> None:
        sys.stdout.write(stream.feed(text) if plain else text)
        sys.stdout.flush()

    yield show
    sys.stdout.write(stream.rest())
