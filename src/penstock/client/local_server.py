"""A server to talk to: the one the environment names, or one on this machine, found or started by itself."""

import contextlib
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.client.datadir import AlreadyServedError, DataDir, default_data_dir
from penstock.client.http import Client
from penstock.client.trust import CA_VARIABLE, trusting_authority
from penstock.core import InputError, PenstockError
from penstock.wire import UnavailableError

_QUICK_START_S = 4.0
_SLOW_START = "still starting; the first server after an installation compiles its planning loops, some 20 s, once"


class ServerStartError(PenstockError):
    """A server could not be started; says what its log said."""


def reach(*, say: Callable[[str], None] = lambda _: None) -> Client:
    """The server ``PENSTOCK_SERVER`` and ``PENSTOCK_TOKEN`` name, else the local one, started if need be.

    ``PENSTOCK_CA`` names the file of the authority that vouches for that server's certificate.
    """
    url, token = os.environ.get("PENSTOCK_SERVER"), os.environ.get("PENSTOCK_TOKEN")
    if not url:
        return ensure_server(say=say)
    if not token:
        raise InputError("PENSTOCK_SERVER is set but PENSTOCK_TOKEN is not", hint="penstock token create makes one")
    authority = os.environ.get(CA_VARIABLE)
    return Client(url, token, trust=trusting_authority(authority) if authority else None)


def ensure_server(
    data_dir: Path | None = None,
    *,
    say: Callable[[str], None] = lambda _: None,
    options: Sequence[str] = (),
    within_s: float = 300.0,
) -> Client:
    """A client of the local server, which is started in the background if there is none; ``say`` hears about it."""
    place = DataDir(data_dir or default_data_dir())
    place.prepare()

    def start() -> "subprocess.Popen[bytes]":
        say(f"starting a Penstock server for {place.path} (log: {place.log_file})")
        return _start(place, options)

    return _wait_until_ready(place, start, say, time.monotonic() + within_s)


def _start(place: DataDir, options: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Detached: in a session of its own, so that neither Ctrl-C nor the end of the terminal reaches it.

    It is still a child of this process: a thread waits for it, so that it leaves no zombie if it ends before us.
    """
    command = [sys.executable, "-m", "penstock.serve", "--data-dir", str(place.path), *options]
    with place.log_file.open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    threading.Thread(target=process.wait, name="penstock-server", daemon=True).start()
    return process


def _wait_until_ready(
    place: DataDir, start: "Callable[[], subprocess.Popen[bytes]]", say: Callable[[str], None], deadline: float
) -> Client:
    """A server that is on its way out when we come still holds the directory: it is succeeded once it has gone."""
    process, explain_at = None, math.inf
    while time.monotonic() < deadline:
        if (client := _reachable(place)) is not None:
            return client
        ended = process.poll() if process is not None else AlreadyServedError.exit_code
        if ended not in (None, AlreadyServedError.exit_code):
            break
        if ended is not None and not place.is_served():
            process, explain_at = start(), time.monotonic() + _QUICK_START_S
        if time.monotonic() > explain_at:
            say(_SLOW_START)
            explain_at = math.inf
        time.sleep(0.05)
    tail = place.log_file.read_text(errors="replace").splitlines()[-5:] if place.log_file.exists() else []
    raise ServerStartError("\n".join([f"the server for {place.path} did not start; its log ends with:", *tail]))


def _reachable(place: DataDir) -> Client | None:
    with contextlib.suppress(UnavailableError):
        client = Client.local(place.path)
        if client.ready():
            return client
        client.close()
    return None
