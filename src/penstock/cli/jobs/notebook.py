"""``penstock notebook``: a notebook server on devices, for a while.

The server is the environment's own Jupyter. It runs beside a job that holds the devices, and what it prints comes only
to this terminal: its address holds a token with which anybody could run code there, so it is kept out of the job's log.
"""

import re
import sys
from collections import deque
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from penstock.cli.connect import connect
from penstock.cli.jobs.held_devices import DevicesOption, DurationOption, SetsOption, code_of_session, held_devices
from penstock.cli.terminal.console import complain, say
from penstock.core import InputError

_ADDRESS = re.compile(r"https?://[^\s?]{1,300}\?(?:[^\s&]{0,100}&){0,5}token=[^\s&]{1,200}")
_KEPT_LINES = 30
_NOT_FOUND = 127
_JUPYTER = """
PATH="$PATH:$1"; shift
[ "$(id -u)" != 0 ] || set -- "$@" --allow-root
for server in jupyter-lab jupyter-notebook; do
    command -v "$server" >/dev/null && exec "$server" --no-browser --ip=127.0.0.1 "$@"
done
exit 127
"""


def notebook(
    devices: DevicesOption = "1",
    duration: DurationOption = "1h",
    name: Annotated[str, typer.Option(help="What to call it.")] = "notebook",
    port: Annotated[int, typer.Option(help="Where Jupyter listens, or at the next port that is free.")] = 8888,
    sets: SetsOption = [],  # noqa: B006
    command: Annotated[list[str] | None, typer.Argument(help="Another notebook server, after --.")] = None,
) -> None:
    """Open a notebook on devices, as a job with an end; Ctrl-C closes it and gives them back."""
    with connect() as client, held_devices(client, devices=devices, duration=duration, name=name, sets=sets) as job:
        output = NotebookOutput(urlsplit(client.url).hostname or "")
        say(f"{job}: a notebook for {duration}; Ctrl-C closes it")
        try:
            code = code_of_session(client, job, client.execute(job, command or _jupyter(port), output.take))
        except KeyboardInterrupt:
            say("\nclosed; its devices are given back")
            code = 0
        output.explain(code, is_jupyter=not command)
    raise typer.Exit(code)


def _jupyter(port: int) -> list[str]:
    """Jupyter of the job's environment, else the one beside this program."""
    return ["sh", "-c", _JUPYTER, "sh", str(Path(sys.executable).parent), f"--port={port}"]


class NotebookOutput:
    """What a notebook server prints: its first address with a token is told, the rest is kept for a failure."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._begun = ""
        self.address = ""

    def take(self, text: str) -> None:
        *whole, self._begun = (self._begun + text).split("\n")
        self._lines.extend(whole)
        found = None if self.address else next(filter(None, map(_ADDRESS.search, whole)), None)
        if found is not None:
            self.address = found[0].replace("//127.0.0.1:", "//localhost:")  # the dashboard's cookies are of 127.0.0.1
            print(self.address, flush=True)
            self._tell_tunnel(urlsplit(self.address).port)

    def explain(self, code: int, *, is_jupyter: bool) -> None:
        """Why there is no notebook, where that is so."""
        if code == _NOT_FOUND and is_jupyter and not self.address:
            raise InputError(
                "the environment has no Jupyter", "one with jupyterlab or notebook in it",
                "Have it installed for this session: penstock notebook --set 'environment.requirements=[jupyterlab]'; "
                "or for all: pip install jupyterlab where the server runs",
            )  # fmt: skip
        if code != 0:
            complain(f"the notebook server ended with code {code}. Its last lines:")
            say("\n".join([*self._lines, self._begun]).rstrip())

    def _tell_tunnel(self, port: int | None) -> None:
        """It listens on the server's own machine alone."""
        if self._host not in ("127.0.0.1", "localhost", "::1"):
            say(f"from here: ssh -L {port}:127.0.0.1:{port} {self._host}, then open the address")
