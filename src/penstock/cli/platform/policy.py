"""``penstock policy``: the policy in force, and another in its place while jobs run."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, say
from penstock.cli.terminal.format import clock
from penstock.core import counted, format_duration

if TYPE_CHECKING:
    from penstock.wire import PolicyView

app = typer.Typer(invoke_without_command=True, help="The policy in force: show it, switch it.")


@app.callback()
def show(context: typer.Context, as_json: JsonOption = False) -> None:
    """Show the policy in force with its parameters."""
    if context.invoked_subcommand is not None:
        return
    with connect() as client:
        view = client.policy()
    print_json(view) if as_json else _tell(view)


@app.command("set")
def set_policy(
    name: Annotated[str, typer.Argument(help="A policy (`penstock policies`).")],
    settings: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Its parameters.")] = None,
    slot: Annotated[str | None, typer.Option(help="Shortest time between two decisions (default: as now).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Even if promises are endangered or withdrawn.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Switch the policy while jobs run. They go on, and what was promised stays promised; what the new policy would
    endanger is named, and nothing is changed then."""
    written = f"{name}:{','.join(settings)}" if settings else name
    with connect() as client:
        view = client.switch_policy(written, slot=slot, force=force)
    for risk in view.endangered:
        then = "is withdrawn" if risk.expected_at is None else f"is expected at {clock(risk.expected_at)}"
        say(f"{risk.job_id}, promised for {clock(risk.deadline)}, {then}")
    print_json(view) if as_json else _tell(view)


def _tell(view: "PolicyView") -> None:
    whose = f", chosen by {view.by}; the configuration says {view.configured}" if view.by else ""
    kept = "keeps promises" if view.keeps_promises else "promises nothing"
    out.print(f"{view.written}  since {clock(view.since)}{whose}", soft_wrap=True)
    out.print(f"{kept}; {counted(view.promises, 'promise')} to jobs that are here; slot {format_duration(view.slot_s)}")
    for each in view.parameters:
        usual = "" if each.value == each.default else f"; {each.default} if nothing is said"
        out.print(f"  {each.name}={each.value}  {each.meaning} ({each.allowed}{usual})", soft_wrap=True, markup=False)
