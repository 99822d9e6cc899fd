"""``penstock submit``, ``penstock quote`` and ``penstock run``: a job file, flags, or both."""

import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.console import complain, out, say
from penstock.cli.logs import follow
from penstock.cli.session import connect, print_json
from penstock.cli.words import quote_lines

if TYPE_CHECKING:
    from penstock.control import Client
    from penstock.control.views import JobDetail
    from penstock.spec import JobFile

EXIT_CODES = {"finished": 0, "failed": 1, "declined": 3, "cancelled": 4}
"""What ``run`` ends with where the job itself gives no code."""

WhatArgument = Annotated[list[str], typer.Argument(help="A job file (.yaml, .json), or a command after --.")]
WorkOption = Annotated[str | None, typer.Option(help='"10_000 steps" or "30 epochs".')]
DeadlineOption = Annotated[str | None, typer.Option(help='"6h" or "2026-12-01T18:00".')]
SoftOption = Annotated[bool, typer.Option("--soft", help="Late is better than never.")]
BestEffortOption = Annotated[bool, typer.Option("--best-effort", help="No deadline.")]
DevicesOption = Annotated[str | None, typer.Option(help='Bounds, "1..8".')]
NameOption = Annotated[str | None, typer.Option(help="What to call it.")]
BatchOption = Annotated[str | None, typer.Option("--batch", help="Global batch size.")]
SetOption = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override any key of the job file.")]
EnvOption = Annotated[list[str], typer.Option("--env", metavar="NAME=VALUE", help="A variable for the job.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def submit(
    what: WhatArgument,
    name: NameOption = None,
    work: WorkOption = None,
    deadline: DeadlineOption = None,
    soft: SoftOption = False,
    best_effort: BestEffortOption = False,
    devices: DevicesOption = None,
    batch: BatchOption = None,
    env: EnvOption = [],  # noqa: B006
    sets: SetOption = [],  # noqa: B006
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show exactly what would be submitted.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Submit a job and say what it is promised."""
    file = read_job(
        what, name=name, work=work, deadline=deadline, soft=soft, best_effort=best_effort, devices=devices,
        batch=batch, env=env, sets=sets,
    )  # fmt: skip
    if dry_run:
        from penstock.spec import dump_yaml

        print(dump_yaml(file), end="")
        out.print(f"# would run: {' '.join(file.command_line())}")
        return
    with connect() as client:
        answer = client.submit(as_spec(file), key=str(uuid.uuid4()))
    if as_json:
        print_json(answer)
        return
    print(answer.job.id)
    for line in quote_lines(answer.job.quote) if answer.job.quote else ["it is answered in the next round"]:
        say(line)
    say(f"follow it: penstock logs -f {answer.job.id}")


def quote(
    what: WhatArgument,
    name: NameOption = None,
    work: WorkOption = None,
    deadline: DeadlineOption = None,
    soft: SoftOption = False,
    best_effort: BestEffortOption = False,
    devices: DevicesOption = None,
    batch: BatchOption = None,
    env: EnvOption = [],  # noqa: B006
    sets: SetOption = [],  # noqa: B006
    as_json: JsonOption = False,
) -> None:
    """Say what a job would be promised now, without submitting it."""
    file = read_job(
        what, name=name, work=work, deadline=deadline, soft=soft, best_effort=best_effort, devices=devices,
        batch=batch, env=env, sets=sets,
    )  # fmt: skip
    with connect() as client:
        answer = client.quote(as_spec(file))
    if as_json:
        print_json(answer)
    else:
        out.print("\n".join(quote_lines(answer)), soft_wrap=True)


def run(
    what: WhatArgument,
    name: NameOption = None,
    work: WorkOption = None,
    deadline: DeadlineOption = None,
    soft: SoftOption = False,
    best_effort: BestEffortOption = False,
    devices: DevicesOption = None,
    batch: BatchOption = None,
    env: EnvOption = [],  # noqa: B006
    sets: SetOption = [],  # noqa: B006
) -> None:
    """Submit a job, follow its output, and end with its exit code. Ctrl-C detaches; the job goes on."""
    file = read_job(
        what, name=name, work=work, deadline=deadline, soft=soft, best_effort=best_effort, devices=devices,
        batch=batch, env=env, sets=sets,
    )  # fmt: skip
    with connect() as client:
        job = client.submit(as_spec(file), key=str(uuid.uuid4())).job
        say(f"{job.id} submitted")
        follow(client, job.id)
        ended = _await_end(client, job.id)
    if ended.state != "finished":
        complain(f"{ended.id} {ended.state}: {ended.reason or (ended.quote.reason if ended.quote else '')}")
    sys.exit(ended.exit_code or EXIT_CODES.get(ended.state, 1))


def _await_end(client: "Client", job: str) -> "JobDetail":
    """The last line may be read before the end is known."""
    while (detail := client.job(job)).state not in EXIT_CODES:
        time.sleep(0.1)
    return detail


def read_job(
    what: list[str],
    *,
    name: str | None = None,
    work: str | None = None,
    deadline: str | None = None,
    soft: bool = False,
    best_effort: bool = False,
    devices: str | None = None,
    batch: str | None = None,
    env: list[str],
    sets: list[str],
) -> "JobFile":
    """The job that a file, a command and flags describe together."""
    from penstock.spec import from_flags

    path = Path(what[0])
    is_file = len(what) == 1 and path.suffix in (".yaml", ".yml", ".json")
    return from_flags(
        () if is_file else tuple(what), file=path if is_file else None, env=env, sets=sets, name=name, work=work,
        deadline=deadline, strictness="soft" if soft else None, best_effort=best_effort or None, devices=devices,
        global_batch=batch,
    )  # fmt: skip


def as_spec(file: "JobFile") -> dict[str, Any]:
    """What goes over the wire."""
    from penstock.spec import to_mapping

    return dict(to_mapping(file))
