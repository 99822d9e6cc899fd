"""``penstock shell``: devices to try things on, for a while."""

import os
import time
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect
from penstock.cli.submission.submit import hand_in
from penstock.cli.terminal.attached import attach
from penstock.cli.terminal.console import say
from penstock.core import PenstockError
from penstock.wire import OVER

if TYPE_CHECKING:
    from penstock.client import Client

_POLL_S = 0.3


def shell(
    devices: Annotated[str, typer.Option("--devices", "--gpus", help="How many devices.")] = "1",
    duration: Annotated[str, typer.Option("--for", help='When it ends at the latest: "2h".')] = "1h",
    name: Annotated[str, typer.Option(help="What to call it.")] = "shell",
    command: Annotated[list[str] | None, typer.Argument(help="What to run instead of a shell, after --.")] = None,
) -> None:
    """Open a shell on devices, as a job with an end; leaving it gives them back."""
    from penstock.core import parse_duration
    from penstock.spec import from_flags

    seconds = parse_duration(duration)
    file = from_flags(
        ("sleep", f"{seconds:g}"), name=name, work="1 step", devices=devices, retries="0", profile="never",
        sets=["resumable=false"],
    )  # fmt: skip
    with connect() as client:
        job = hand_in(client, file).job.id
        try:
            _await_devices(client, job)
            say(f"{job}: a shell for {duration}; leave it with exit")
            code = attach(client, job, command or _shell())
        finally:
            client.cancel(job)
    raise typer.Exit(code)


def _shell() -> list[str]:
    return ["env", f"TERM={os.environ.get('TERM', 'dumb')}", "sh", "-c", 'exec "${SHELL:-/bin/sh}" -i']


def _await_devices(client: "Client", job: str) -> None:
    told = ""
    while (detail := client.job(job)).state != "running":
        if detail.state in OVER:
            raise PenstockError(
                f"{job} {detail.state}: {detail.reason or (detail.quote.reason if detail.quote else '')}"
            )
        if detail.state != told:
            told = detail.state
            say(f"{job} {told}: waiting for devices; Ctrl-C gives up")
        time.sleep(_POLL_S)
