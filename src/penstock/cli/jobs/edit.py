"""``penstock edit``: another deadline, other bounds, another priority or another name for a job that is not over."""

from typing import Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JobArgument, JsonOption
from penstock.cli.submission.submit import tell_answer
from penstock.cli.terminal.console import say


def edit(
    job: JobArgument,
    deadline: Annotated[str | None, typer.Option(help='A new deadline, from now: "6h", "friday 18:00".')] = None,
    then: Annotated[
        list[str],
        typer.Option("--then", metavar="TIME=PERCENT", help='With --deadline: what late is still worth, or "none".'),
    ] = [],  # noqa: B006
    best_effort: Annotated[bool, typer.Option("--best-effort", help="Without a deadline from now on.")] = False,
    devices: Annotated[str | None, typer.Option("--devices", "--gpus", help='Bounds, "1..8", or a number.')] = None,
    priority: Annotated[int | None, typer.Option(help="0 to 100: who goes first of those without a promise.")] = None,
    name: Annotated[str | None, typer.Option(help="What to call it.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Change the deadline, devices, priority or name of a job that waits or runs.

    A deadline that cannot be promised is rejected with the earliest that could be, and nothing is changed; so is an
    earlier deadline that cannot be answered yet, because the speed of the job is not known.
    """
    from penstock.spec import later_values, read_deadline

    deadline = None if deadline is None else read_deadline(deadline)
    values = None if not then else {} if then == ["none"] else later_values(then)
    with connect() as client:
        detail = client.edit(
            job, deadline=deadline, then=values, best_effort=best_effort or None, devices=devices, priority=priority,
            name=name,
        )  # fmt: skip
    if as_json:
        print_json(detail)
        return
    say(f"{detail.id} {detail.name} {detail.state}")
    tell_answer(detail)
    if deadline is not None and detail.quote is not None and detail.quote.verdict == "deferred":
        say("if it cannot be promised then, the job goes on at best effort")
