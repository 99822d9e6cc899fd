"""``penstock resubmit``: the same job once more, or one that differs a little."""

import uuid
from typing import Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JobArgument, JsonOption
from penstock.cli.submission.description import as_spec
from penstock.cli.submission.submit import end_if_rejected, tell_submission


def resubmit(
    job: JobArgument,
    name: Annotated[str | None, typer.Option(help="What to call it.")] = None,
    deadline: Annotated[str | None, typer.Option(help='Another deadline: "6h", "friday 18:00".')] = None,
    best_effort: Annotated[bool, typer.Option("--best-effort", help="No deadline.")] = False,
    work: Annotated[str | None, typer.Option(help='Other work: "10_000 steps" or "30 epochs".')] = None,
    devices: Annotated[str | None, typer.Option("--devices", "--gpus", help='Bounds, "1..8", or a number.')] = None,
    env: Annotated[list[str], typer.Option("--env", metavar="NAME=VALUE", help="A variable for the job.")] = [],  # noqa: B006
    sets: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override any key of the job file.")
    ] = [],  # noqa: B006
    as_json: JsonOption = False,
) -> None:
    """Submit the job file of a job again, as a new job with checkpoints of its own."""
    from penstock.spec import from_mapping_and_flags

    with connect() as client:
        before = client.job(job)
        file = from_mapping_and_flags(
            before.spec, f"job {before.id}", sets=sets, env=env, name=name, work=work, devices=devices,
            deadline=deadline, best_effort=best_effort or None,
        )  # fmt: skip
        answer = client.submit(as_spec(file), key=str(uuid.uuid4()))
    print_json(answer) if as_json else tell_submission(answer.job)
    end_if_rejected(answer.job.state)
