"""``penstock stop``: end the server of this machine."""

import os
import signal
import time
from typing import Annotated

import typer

from penstock.cli.terminal.console import say
from penstock.core import InputError, PenstockError

_POLL_S = 0.05


class StillServingError(PenstockError):
    """A server that was asked to end and did not."""


def stop(
    timeout: Annotated[str, typer.Option(help="How long to wait for its end.")] = "30s",
) -> None:
    """Stop the server of this machine. Jobs that run go on, and the next server finds them."""
    from penstock.client import DataDir, default_data_dir
    from penstock.core import parse_duration

    if os.environ.get("PENSTOCK_SERVER"):
        raise InputError(
            "PENSTOCK_SERVER names a server elsewhere", "the server of this machine's data directory",
            "Stop that one where it runs, or unset PENSTOCK_SERVER",
        )  # fmt: skip
    place = DataDir(default_data_dir())
    deadline = time.monotonic() + parse_duration(timeout)
    address = place.address()
    if not place.is_served() or address is None:
        say(f"no server runs on {place.path}")
        return
    os.kill(address.pid, signal.SIGTERM)
    while place.is_served():
        if time.monotonic() > deadline:
            raise StillServingError(f"the server (process {address.pid}) has not ended within {timeout}")
        time.sleep(_POLL_S)
    say(f"stopped the server of {place.path}; jobs that run go on")
