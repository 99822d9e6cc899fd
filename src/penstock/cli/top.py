"""``penstock top``: the platform at a glance, live."""

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from penstock.cli.console import err, plain_table
from penstock.cli.session import connect
from penstock.cli.words import ACTIVE, bar, due, share_done

if TYPE_CHECKING:
    from penstock.control import Client

_ROWS = 40


def command(
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
) -> None:
    """Jobs with their progress, and how full the cluster is; Ctrl-C ends the view, nothing else."""
    with connect() as client, Live(picture(client), console=err, auto_refresh=False) as live:
        try:
            while not once:
                time.sleep(every)
                live.update(picture(client), refresh=True)
        except KeyboardInterrupt:
            return


def picture(client: "Client") -> Group:
    """What is going on now."""
    jobs = client.jobs(limit=_ROWS, states=ACTIVE).jobs
    nodes = client.nodes()
    there, held = sum(len(node.devices) for node in nodes if node.state == "up"), sum(len(job.devices) for job in jobs)
    table = plain_table("id", "name", "state", "devices", "progress", "expected")
    for job in jobs:
        detail = client.job(job.id)
        table.add_row(job.id, job.name, job.state, str(len(job.devices)), bar(share_done(detail)), due(job))
    return Group(Text(f"{held} of {there} devices held, {len(jobs)} jobs active"), table)
