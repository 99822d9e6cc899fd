"""``penstock ps``: the list of jobs."""

from typing import Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table
from penstock.cli.terminal.format import ago, due


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
