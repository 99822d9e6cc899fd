"""``penstock restore``: a server's database from a backup."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.terminal.console import say


def command(
    file: Annotated[Path, typer.Argument(help="A file that penstock backup made.")],
    config: Annotated[
        Path | None, typer.Option(help="A configuration file (default: penstock.toml in the data dir).")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the server keeps everything.")] = None,
    database: Annotated[str | None, typer.Option(help="Where to; a PostgreSQL database must be empty.")] = None,
) -> None:
    """Put a backup in the place of the database. No server may run; a SQLite file that is there is kept beside it."""
    from penstock.serve import load_config, restore_platform

    settings = load_config({"data_dir": data_dir, "database": database}, file=config)
    before = restore_platform(settings, file)
    if before is not None:
        say(f"the database that was there is now {before}")
    say("restored; what happened since the backup is not in it. Start with: penstock serve --recover")
