"""``penstock quota``: what tenants may have at most."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table, say

if TYPE_CHECKING:
    from penstock.wire import QuotaView

_COLUMNS = ("active jobs", "devices per job", "requests per second")
app = typer.Typer(invoke_without_command=True, help="What tenants may have at most: show it, set it.")


@app.callback()
def listing(context: typer.Context, as_json: JsonOption = False) -> None:
    """List the quotas; those of * hold for every tenant without its own."""
    if context.invoked_subcommand is not None:
        return
    with connect() as client:
        quotas = client.quotas()
    if as_json:
        print_json(quotas)
        return
    table = plain_table("tenant", *_COLUMNS)
    for quota in quotas:
        table.add_row(quota.tenant, *_limits(quota))
    out.print(table)


def _limits(quota: "QuotaView") -> list[str]:
    limits = (quota.active_jobs, quota.devices, quota.requests_per_s)
    return ["no limit" if limit is None else f"{limit:g}" for limit in limits]


@app.command("set")
def set_quota(
    tenant: Annotated[str, typer.Argument(help="A tenant, or * for all that have no quota of their own.")],
    jobs: Annotated[int | None, typer.Option(min=0, help="Jobs that are not over (default: no limit).")] = None,
    devices: Annotated[int | None, typer.Option(min=0, help="Devices one job may ask for (default: no limit).")] = None,
    requests: Annotated[float | None, typer.Option(help="Requests a second (default: no limit).")] = None,
) -> None:
    """Set the limits of a tenant; what is not given is not limited any more."""
    with connect() as client:
        quota = client.set_quota(tenant, active_jobs=jobs, devices=devices, requests_per_s=requests)
    say(f"{tenant}: {', '.join(f'{name} {limit}' for name, limit in zip(_COLUMNS, _limits(quota), strict=True))}")
