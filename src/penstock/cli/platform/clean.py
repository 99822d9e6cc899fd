"""``penstock clean``: room on the disk."""

from typing import Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table, say
from penstock.cli.terminal.format import clock
from penstock.core import counted, format_bytes


def clean(
    older: Annotated[str | None, typer.Option(help="Of jobs that ended longer ago: 30d.")] = None,
    larger: Annotated[str | None, typer.Option(help="Of jobs that saved more than this: 10GB.")] = None,
    keep_last: Annotated[int, typer.Option("--keep-last", min=0, help="Keep so many newest of each job.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove checkpoints of jobs that are over, by age and size; jobs that may go on keep theirs."""
    with connect() as client:
        report = client.clean(older=older, larger=larger, keep_last=keep_last, dry_run=dry_run)
    if as_json:
        print_json(report)
        return
    table = plain_table("job", "name", "state", "ended", "size", "what")
    for job in report.jobs:
        what = job.problem or f"{len(job.files)} of its checkpoints and files"
        table.add_row(job.job_id, job.name, job.state, clock(job.ended_at), format_bytes(job.bytes), what)
    if report.jobs:
        out.print(table)
    say(f"{format_bytes(report.bytes)} of {counted(len(report.jobs), 'job')} {'would go' if dry_run else 'went'}")
