"""``penstock serve``: the platform in the foreground."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.terminal.console import say
from penstock.core import parse_duration


def command(
    data_dir: Annotated[Path | None, typer.Option(help="Where everything is kept [XDG data directory].")] = None,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one; clients find it.")] = 0,
    database: Annotated[str, typer.Option(help="A PostgreSQL or SQLite URL [SQLite in the data directory].")] = "",
    policy: Annotated[str, typer.Option(help="Who gets how many devices.")] = "deadline",
    slot: Annotated[str, typer.Option(help="Shortest time between two decisions.")] = "0s",
    slots: Annotated[int | None, typer.Option(min=1, help="Use this many CPU slots instead of accelerators.")] = None,
    exposed: Annotated[bool, typer.Option("--exposed", help="Allow listening beyond this machine.")] = False,
    log_format: Annotated[str, typer.Option(help="text, or json: one object a line [$PENSTOCK_LOG_FORMAT].")] = "",
) -> None:
    """Run the platform until Ctrl-C. Jobs outlive it and are found again."""
    from penstock.client import default_data_dir
    from penstock.control import LogFormat, set_up
    from penstock.serve import Config, serve

    config = Config(
        data_dir=data_dir or default_data_dir(), host=host, port=port, database=database, policy=policy,
        slot_s=parse_duration(slot), slots=slots, exposed=exposed, log_format=log_format,
    )  # fmt: skip
    set_up(LogFormat.named(log_format))
    serve(config, on_ready=lambda address: say(f"Penstock serves {config.data_dir} at {address.url}"))
