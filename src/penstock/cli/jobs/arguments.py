"""Arguments and options that several verbs about jobs share."""

from datetime import datetime
from typing import Annotated

import typer

from penstock.core import resolve_past

JobArgument = Annotated[str, typer.Argument(help="A job: its id, its name, or the beginning of its id.")]
JobsArgument = Annotated[list[str], typer.Argument(help="Jobs, by id, name or the beginning of an id; or job arrays.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def as_sent(since: str | None) -> str | None:
    """How long ago, or when, as a server far away understands it: moments are those of this machine's time zone."""
    moment = None if since is None else resolve_past(since, datetime.now())
    return since if moment is None else moment.isoformat()
