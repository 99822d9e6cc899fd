"""``penstock checkpoints``: what a job can go on from."""

from typing import Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JobArgument, JsonOption
from penstock.cli.terminal.console import out, plain_table, say
from penstock.cli.terminal.format import clock
from penstock.core import format_bytes


def checkpoints(
    job: JobArgument,
    verify: Annotated[bool, typer.Option("--verify", help="Compute every checksum, which reads all of it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the checkpoints of a job: step, time, size, and whether they are whole."""
    with connect() as client:
        found = client.checkpoints(job, verify=verify)
    if as_json:
        print_json(found)
        return
    if not found.checkpoints:
        say(f"nothing saved yet in {found.place}")
        return
    table = plain_table("checkpoint", "step", "saved", "size", "state")
    for each in found.checkpoints:
        step = "-" if each.step is None else str(each.step)
        state = f"{each.state}: {each.problem}" if each.problem else each.state
        table.add_row(each.path, step, clock(each.saved_at), format_bytes(each.bytes), state)
    out.print(table)
    say(f"in {found.place}")
