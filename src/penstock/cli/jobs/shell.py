"""``penstock shell``: devices to try things on, for a while."""

import os
from typing import Annotated

import typer

from penstock.cli.connect import connect
from penstock.cli.jobs.held_devices import DevicesOption, DurationOption, SetsOption, code_of_session, held_devices
from penstock.cli.terminal.attached import attach
from penstock.cli.terminal.console import say


def shell(
    devices: DevicesOption = "1",
    duration: DurationOption = "1h",
    name: Annotated[str, typer.Option(help="What to call it.")] = "shell",
    sets: SetsOption = [],  # noqa: B006
    command: Annotated[list[str] | None, typer.Argument(help="What to run instead of a shell, after --.")] = None,
) -> None:
    """Open a shell on devices, as a job with an end; leaving it gives them back."""
    with connect() as client, held_devices(client, devices=devices, duration=duration, name=name, sets=sets) as job:
        say(f"{job}: a shell for {duration}; leave it with exit")
        code = code_of_session(client, job, attach(client, job, command or _shell()))
    raise typer.Exit(code)


def _shell() -> list[str]:
    return ["env", f"TERM={os.environ.get('TERM', 'dumb')}", "sh", "-c", 'exec "${SHELL:-/bin/sh}" -i']
