"""Arguments and options that several verbs about jobs share."""

from typing import Annotated

import typer

JobArgument = Annotated[str, typer.Argument(help="A job: its id, its name, or the beginning of its id.")]
JobsArgument = Annotated[list[str], typer.Argument(help="Jobs, by id, name or the beginning of an id; or job arrays.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
