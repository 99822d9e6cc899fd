"""``penstock backup``: everything a server knows, in one file, while it runs."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.terminal.console import complain, say
from penstock.core import counted


def command(
    file: Annotated[
        Path | None, typer.Argument(help="Where to (default: backups/DATE.db in the data directory).")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A configuration file (default: penstock.toml in the data dir).")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the server keeps everything.")] = None,
    database: Annotated[str | None, typer.Option(help="The database (default: as the server's).")] = None,
) -> None:
    """Write the whole database, as of one moment, to a file. A server may go on writing meanwhile."""
    from penstock.serve import back_up_platform, load_config

    settings = load_config({"data_dir": data_dir, "database": database}, file=config)
    target, summary = back_up_platform(settings, file)
    say(f"{summary.entries} entries and {counted(summary.jobs, 'job')}, every entry read again")
    if summary.damaged:
        complain(f"{len(summary.damaged)} of the entries are damaged, the first is {summary.damaged[0]}")
    print(target)
