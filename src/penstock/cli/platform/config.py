"""``penstock config``: the settings in effect, and where things are kept."""

import json
import os
from typing import Annotated

import typer

from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out

VARIABLES = {
    "PENSTOCK_SERVER": "the server to talk to, instead of the local one",
    "PENSTOCK_TOKEN": "the token to show it",
    "PENSTOCK_CA": "a file of certificates that vouch for it",
    "PENSTOCK_DATA_DIR": "where a local server keeps everything",
    "PENSTOCK_CONFIG": "a server's configuration file, instead of penstock.toml in the data directory",
    "PENSTOCK_LOG_FORMAT": "text or json, for a server's own log",
    "PENSTOCK_JIT": "0 runs the planning loops uncompiled",
    "NO_COLOR": "no colours",
}


def config(
    as_json: JsonOption = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of job files, for editors.")] = False,
) -> None:
    """Show which settings are in effect and where things are kept."""
    from penstock.client import default_data_dir
    from penstock.spec import json_schema

    if schema:
        print(json.dumps(json_schema(), indent=2))
        return
    settings = {"data_dir": str(default_data_dir())} | {name: os.environ.get(name) for name in VARIABLES}
    if os.environ.get("PENSTOCK_TOKEN"):
        settings["PENSTOCK_TOKEN"] = "(set)"
    if as_json:
        print(json.dumps(settings, indent=2))
        return
    out.print(f"data directory: {settings['data_dir']}")
    for name, meaning in VARIABLES.items():
        out.print(f"{name}={settings[name] or ''}  # {meaning}")
