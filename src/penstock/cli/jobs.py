"""``penstock ps``, ``show``, ``why``, ``events``: looking at jobs."""

from typing import Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.console import out, plain_table
from penstock.cli.format import ago, bar, clock, due, quote_lines, share_done
from penstock.cli.logs import JobArgument
from penstock.core import format_duration

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def ps(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also jobs that are over.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only ids.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List jobs, the newest first."""
    from penstock.wire import ACTIVE

    states = () if everything else ACTIVE
    with connect() as client:
        page = client.jobs(limit=limit, states=states)
    if as_json:
        print_json(page)
        return
    if quiet:
        print("\n".join(job.id for job in page.jobs))
        return
    table = plain_table("id", "name", "state", "devices", "submitted", "expected", "tenant")
    for job in page.jobs:
        table.add_row(job.id, job.name, job.state, str(len(job.devices)), ago(job.submitted_at), due(job), job.tenant)
    out.print(table)
    if not page.jobs:
        out.print("no jobs" if everything else "no jobs are active; penstock ps -a shows those that are over")


def show(job: JobArgument, as_json: JsonOption = False) -> None:
    """Everything about one job."""
    with connect() as client:
        detail = client.job(job)
    if as_json:
        print_json(detail)
        return
    out.print(f"{detail.id}  {detail.name}  {detail.state}  {bar(share_done(detail))}")
    out.print(
        f"submitted {clock(detail.submitted_at)}, started {clock(detail.started_at)}, ended {clock(detail.ended_at)}"
    )
    for line in quote_lines(detail.quote) if detail.quote else []:
        out.print(line, soft_wrap=True)
    if (progress := detail.progress) is not None and progress.step is not None:
        loss = f", loss {progress.loss:.4g}" if progress.loss is not None else ""
        out.print(f"step {progress.step} of {progress.total}{loss}, saved at step {progress.saved_step or 0}")
    for stint in detail.history:
        until = clock(stint.until) if stint.until else "now"
        out.print(f"{clock(stint.since)} to {until}: {len(stint.devices)} x {stint.kind} {stint.devices}")
    if detail.reason:
        out.print(f"reason: {detail.reason}", soft_wrap=True)
    for line in detail.tail:
        out.print(f"  | {line}", soft_wrap=True)


def why(job: JobArgument, as_json: JsonOption = False) -> None:
    """Why a job stands where it stands: what happened to it, and what comes next."""
    with connect() as client:
        story = client.why(job)
    if as_json:
        print_json(story)
        return
    start = story.entries[0].at if story.entries else None
    for note in story.entries:
        since = format_duration((note.at - start).total_seconds()) if start else ""
        out.print(f"+{since:>8}  {note.text}", soft_wrap=True)
    if story.now:
        out.print(f"     now:  {story.now}", soft_wrap=True)


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
    for event in (one for one in page.events if everything or one.kind not in BOOKKEEPING):
        out.print(f"{event.seq:>6}  {clock(event.at)}  {event.kind:<16} {event.job_id or ''}")
