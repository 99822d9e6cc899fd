"""The flags that describe a job, declared once for every verb that takes one."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.terminal.console import say

if TYPE_CHECKING:
    from penstock.spec import JobFile


def read_job(
    what: Annotated[list[str], typer.Argument(help="A job file (.yaml, .json, .sbatch), or a command after --.")],
    name: Annotated[str | None, typer.Option(help="What to call it.")] = None,
    work: Annotated[str | None, typer.Option(help='"10_000 steps" or "30 epochs".')] = None,
    steps_per_epoch: Annotated[
        int | None, typer.Option("--steps-per-epoch", min=1, help="Steps of an epoch, where --work is in epochs.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help='"val_acc >= 0.92" or "val_loss stops improving for 5 epochs"; --work is the most then.'),
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(help='"6h", "friday 18:00" or "2026-12-01T18:00", in your time zone.')
    ] = None,
    soft: Annotated[
        bool,
        typer.Option("--soft", help="A late result still has value."),
    ] = False,
    then: Annotated[
        list[str],
        typer.Option("--then", metavar="TIME=PERCENT", help='What late is still worth: "8h=50%", as often as needed.'),
    ] = [],  # noqa: B006
    best_effort: Annotated[bool, typer.Option("--best-effort", help="No deadline.")] = False,
    devices: Annotated[str | None, typer.Option("--devices", "--gpus", help='Bounds, "1..8", or a number.')] = None,
    priority: Annotated[str | None, typer.Option(help="0 to 100: who goes first of those without a promise.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Tenant to charge (default: the tenant of your token).")] = None,
    after: Annotated[
        list[str], typer.Option("--after", metavar="JOB[,JOB]", help="Start when these jobs or arrays have finished.")
    ] = [],  # noqa: B006
    after_any: Annotated[
        bool, typer.Option("--after-any", help="With --after: start when those jobs end, even if they fail.")
    ] = False,
    batch: Annotated[str | None, typer.Option("--batch", help="Global batch size.")] = None,
    profile: Annotated[str | None, typer.Option(help="How an unknown speed is measured: auto, first or never.")] = None,
    nodes: Annotated[
        list[str], typer.Option("--nodes", metavar="NODE[,NODE]", help="Run on these nodes and on no others.")
    ] = [],  # noqa: B006
    exclude: Annotated[
        list[str], typer.Option("--exclude", metavar="NODE[,NODE]", help="Never run on these nodes.")
    ] = [],  # noqa: B006
    preflight: Annotated[
        str | None, typer.Option(help="Check nodes before its workers start there: quick, full or off.")
    ] = None,
    env: Annotated[list[str], typer.Option("--env", metavar="NAME=VALUE", help="A variable for the job.")] = [],  # noqa: B006
    sets: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override any key of the job file.")
    ] = [],  # noqa: B006
) -> "JobFile":
    """The job that a file, a command and flags describe together."""
    from penstock.spec import from_flags

    path = Path(what[0])
    is_script = len(what) == 1 and path.suffix in (".sbatch", ".slurm")
    is_file = is_script or (len(what) == 1 and path.suffix in (".yaml", ".yml", ".json"))
    if is_script:
        _tell_ignored(path)
    return from_flags(
        () if is_file else tuple(what), file=path if is_file else None, env=env, sets=sets, name=name, work=work,
        steps_per_epoch=steps_per_epoch,
        until=until, deadline=deadline, strictness="soft" if soft else None, best_effort=best_effort or None, then=then,
        devices=devices, priority=priority, tenant=tenant, nodes=_separated(nodes), exclude=_separated(exclude),
        after=_separated(after), after_any=after_any or None, global_batch=batch, profile=profile, preflight=preflight,
    )  # fmt: skip


def _separated(lists: list[str]) -> list[str]:
    """What was given with commas, or by giving the option several times."""
    return [each for names in lists for each in names.split(",")]


def _tell_ignored(script: Path) -> None:
    """What a batch script asks for in vain, on standard error."""
    from penstock.spec import read_batch_script

    if script.is_file():
        for line in read_batch_script(script).ignored:
            say(f"ignored {line}")


def describes_job(command: Callable[..., None]) -> Callable[..., None]:
    """Give a verb that takes a job file as ``file`` the flags of :func:`read_job` in front of its own."""
    ours = list(inspect.signature(read_job).parameters.values())
    own = [parameter for parameter in inspect.signature(command).parameters.values() if parameter.name != "file"]

    @wraps(command)
    def verb(**given: Any) -> None:
        file = read_job(**{parameter.name: given.pop(parameter.name) for parameter in ours})
        command(file=file, **given)

    verb.__signature__ = inspect.Signature([*ours, *own])  # type: ignore[attr-defined]
    verb.__annotations__ = {parameter.name: parameter.annotation for parameter in (*ours, *own)}
    return verb


def as_spec(file: "JobFile") -> dict[str, Any]:
    """What goes over the wire."""
    from penstock.spec import to_mapping

    return dict(to_mapping(file))
