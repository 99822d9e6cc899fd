"""``penstock ps``: the list of jobs."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table
from penstock.cli.terminal.format import ago, due, promise_of, state_counts

if TYPE_CHECKING:
    from penstock.wire import ArrayView, JobView


class SortKey(StrEnum):
    """What a list of jobs can be sorted by."""

    NUMBER = "number"
    NAME = "name"
    STATE = "state"
    DEVICES = "devices"
    TENANT = "tenant"


def ps(
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also jobs that are over, and every job of an array.")
    ] = False,
    array: Annotated[
        str | None, typer.Option(metavar="NAME", help="The jobs of this array, by its id or name.")
    ] = None,
    evaluations: Annotated[
        bool, typer.Option("--evaluations", help="With --all: also evaluations of checkpoints that are over.")
    ] = False,
    states: Annotated[
        list[str], typer.Option("--state", metavar="STATE", help="Only jobs in this state; may be given again.")
    ] = [],  # noqa: B006
    tenant: Annotated[str | None, typer.Option(help="Only jobs of this tenant.")] = None,
    sort: Annotated[
        SortKey, typer.Option(help="By number (the newest first), name, state, devices (the most first) or tenant.")
    ] = SortKey.NUMBER,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only ids.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most this many.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List jobs, the newest first; an array is one line."""
    from penstock.wire import ACTIVE

    whole = everything or array is not None or bool(states)
    wanted = states or (() if whole else ACTIVE)
    with connect() as client:
        page = client.jobs(
            limit=limit, states=wanted, tenant=tenant, array=array, grouped=not whole,
            evaluations=evaluations or not everything,
        )  # fmt: skip
    if as_json:
        print_json(page)
        return
    lines: list[JobView | ArrayView] = [*page.jobs, *page.arrays]
    lines.sort(key=lambda line: (_rank(line, sort), -line.number))
    if quiet:
        print("\n".join(line.id for line in lines))
        return
    table = plain_table("id", "name", "state", "devices", "promise", "submitted", "expected", "tenant")
    for line in lines:
        table.add_row(line.id, *_columns(line), line.tenant)
    out.print(table)
    if not lines:
        out.print(
            "no such jobs"
            if states or tenant
            else "no jobs"
            if whole
            else "no jobs are active; penstock ps -a shows those that are over"
        )


def _rank(line: "JobView | ArrayView", by: SortKey) -> str | int:
    """What a line is sorted by; an array stands where its name or its devices put it, and has no one state."""
    match by:
        case SortKey.NUMBER:
            return -line.number
        case SortKey.DEVICES:
            return -(line.devices if isinstance(line.devices, int) else len(line.devices))
        case _:
            return str(getattr(line, by, ""))


def _columns(line: "JobView | ArrayView") -> tuple[str, str, str, str, str, str]:
    from penstock.wire import ArrayView

    if isinstance(line, ArrayView):
        expected = ago(line.expected_at)
        return f"{line.name}-*", state_counts(line), str(line.devices), "-", ago(line.submitted_at), expected
    return line.name, line.state, str(len(line.devices)), promise_of(line), ago(line.submitted_at), due(line)
