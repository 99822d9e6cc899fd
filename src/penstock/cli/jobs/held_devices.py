"""Devices that a person holds for a while: a job that does nothing but end, beside which commands are run."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.submission.submit import hand_in
from penstock.cli.terminal.console import say
from penstock.core import PenstockError
from penstock.wire import OVER, ConflictError

if TYPE_CHECKING:
    from penstock.client import Client

DevicesOption = Annotated[str, typer.Option("--devices", "--gpus", help="How many devices.")]
DurationOption = Annotated[str, typer.Option("--for", help='When it ends at the latest: "2h".')]
SetsOption = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Any key of a job file, such as environment.requirements."),
]
_POLL_S = 0.3
_KILLED, _SETTLED_S = 137, 10.0


@contextmanager
def held_devices(client: "Client", *, devices: str, duration: str, name: str, sets: Sequence[str]) -> Iterator[str]:
    """The id of a job that holds them until it is left, or until its time is over."""
    from penstock.core import parse_duration
    from penstock.spec import from_flags

    seconds = parse_duration(duration)
    file = from_flags(
        ("sleep", f"{seconds:g}"), name=name, work="1 step", devices=devices, retries="0", profile="never",
        sets=["resumable=false", *sets],
    )  # fmt: skip
    job = hand_in(client, file).job.id
    try:
        _await_devices(client, job)
        yield job
    finally:
        with suppress(ConflictError):  # it is over already
            client.cancel(job)


def code_of_session(client: "Client", job: str, code: int) -> int:
    """What a session ends with: a command that ended with the time of its job did nothing wrong."""
    detail, patience = client.job(job), time.monotonic() + _SETTLED_S
    while code == _KILLED and detail.state == "running" and time.monotonic() < patience:
        time.sleep(_POLL_S)  # the command ends with the run, a moment before that is known
        detail = client.job(job)
    if detail.state == "finished":
        say(f"{job}: its time is over")
        return 0
    if detail.state != "running":
        say(f"{job} {detail.state}: {detail.reason}".rstrip(": "))
    return code


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
