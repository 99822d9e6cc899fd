"""Arguments and options that several verbs about jobs share."""

from typing import Annotated

import typer

JobArgument = Annotated[str, typer.Argument(help="The id of a job.")]
JobsArgument = Annotated[list[str], typer.Argument(help="The ids of jobs, or ids or names of job arrays.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
