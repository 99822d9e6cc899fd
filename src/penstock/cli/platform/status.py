"""``penstock status``: whether there is a server, and how it is."""

import os
from typing import TYPE_CHECKING

import typer

from penstock.cli.connect import print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out

if TYPE_CHECKING:
    from penstock.wire import OverviewView


def status(as_json: JsonOption = False) -> None:
    """Say whether a server runs and how it is, without starting one. Exit code 1 if none answers."""
    from penstock.client import Client, DataDir, default_data_dir, reach
    from penstock.wire import UnavailableError

    place = DataDir(default_data_dir())
    try:
        client = reach() if os.environ.get("PENSTOCK_SERVER") else Client.local()
        with client:
            version, overview = client.version().version, client.overview(jobs=1, events=1)
    except UnavailableError as error:
        if as_json:
            print_json({"running": False, "data_dir": str(place.path)})
        else:
            out.print(f"no server: {error}")
        raise typer.Exit(1) from None
    if as_json:
        counts = {"held": overview.held, "devices": overview.devices, "jobs": overview.counts}
        print_json({"running": True, "url": client.url, "version": version, "trouble": overview.trouble, **counts})
        return
    out.print(f"{client.url}  version {version}  policy {overview.policy}")
    for line in _lines(overview):
        out.print(line)


def _lines(overview: "OverviewView") -> list[str]:
    jobs = ", ".join(f"{many} {state}" for state, many in sorted(overview.counts.items()) if many)
    troubles = [f"trouble: {overview.trouble}"] if overview.trouble else []
    return [
        f"devices {overview.held} of {overview.devices} in use",
        f"jobs    {jobs or 'none'}",
        *troubles,
        *(f"warning: {warning}" for warning in overview.warnings),
    ]
