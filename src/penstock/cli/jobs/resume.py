"""``penstock resume``: resume a paused job, or the paused jobs of an array."""

from functools import partial
from typing import Annotated, Any

import typer

from penstock.cli.connect import connect
from penstock.cli.jobs.arguments import JobArgument
from penstock.cli.jobs.steering import steer


def resume(
    job: JobArgument,
    deadline: Annotated[str | None, typer.Option(help='A new deadline: "6h", "friday 18:00".')] = None,
    best_effort: Annotated[bool, typer.Option("--best-effort", help="Without a deadline.")] = False,
    from_scratch: Annotated[
        bool,
        typer.Option(
            "--from-scratch", help="Begin again at step 0 and save to an empty directory; old checkpoints are kept."
        ),
    ] = False,
) -> None:
    """Resume a paused job, or the paused jobs of an array."""
    from penstock.spec import read_deadline

    deadline = None if deadline is None else read_deadline(deadline)
    how: dict[str, Any] = {"deadline": deadline, "best_effort": best_effort, "from_scratch": from_scratch}
    with connect() as client:
        steer(job, partial(client.resume, **how), partial(client.resume_array, **how))
