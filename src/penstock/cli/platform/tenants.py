"""``penstock tenants``: what tenants and groups of them share, lend and borrow, and how fairly they fare."""

from typing import Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table, say
from penstock.core import InputError, format_duration
from penstock.wire import TenantAccountView, nested_tenants

app = typer.Typer(invoke_without_command=True, help="What tenants share, lend, borrow and hold: show it, set it.")
NONE = "none"
TenantArgument = Annotated[str, typer.Argument(help="A tenant, or a group of tenants.")]
_COLUMNS = (
    "tenant",
    "share",
    "quota",
    "limit",
    "held",
    "wanted",
    "borrowed",
    "lent",
    "promisable",
    "used 24 h",
    "deserved",
    "fairness",
)


@app.callback()
def listing(context: typer.Context, as_json: JsonOption = False) -> None:
    """List tenants and groups; figures of a group are those of its members together."""
    if context.invoked_subcommand is not None:
        return
    with connect() as client:
        tenants = client.tenants()
    if as_json:
        print_json(tenants)
        return
    table = plain_table(*_COLUMNS)
    for row in tenant_rows(tenants):
        table.add_row(*row)
    out.print(table)


def tenant_rows(tenants: list[TenantAccountView]) -> list[list[str]]:
    """A line for each, members under their group."""
    return [_row(tenant, depth) for tenant, depth in nested_tenants(tenants)]


def _row(tenant: TenantAccountView, depth: int) -> list[str]:
    bounds = ("-" if bound is None else str(bound) for bound in (tenant.quota, tenant.limit))
    devices = (str(count) for count in (tenant.held, tenant.wanted, tenant.borrowed, tenant.lent, tenant.promisable))
    spent = (format_duration(seconds) for seconds in (tenant.used_device_seconds, tenant.deserved_device_seconds))
    return ["  " * depth + tenant.name, f"{tenant.share:g}", *bounds, *devices, *spent, f"{tenant.fairness:.2f}"]


@app.command("set")
def set_tenant(
    tenant: TenantArgument,
    share: Annotated[float | None, typer.Option(help="What it counts for among its siblings.")] = None,
    quota: Annotated[str | None, typer.Option(help="Devices that are its own; none takes it away.")] = None,
    limit: Annotated[str | None, typer.Option(help="The most devices it may hold; none takes it away.")] = None,
    group: Annotated[str | None, typer.Option(help="The group it belongs to; none takes it out.")] = None,
    lending: Annotated[bool | None, typer.Option(help="Whether others use its idle quota.")] = None,
    borrowing: Annotated[bool | None, typer.Option(help="Whether it uses more than its quota.")] = None,
    priority: Annotated[int | None, typer.Option(help="Tenants of a higher one go first.")] = None,
    max_priority: Annotated[str | None, typer.Option(help="The highest priority of its jobs; none: any.")] = None,
) -> None:
    """Change what a tenant may have; what is not given stays as it is."""
    given = {"share": share, "lending": lending, "borrowing": borrowing, "priority": priority}
    changes: dict[str, float | str | bool | None] = {key: value for key, value in given.items() if value is not None}
    for key, text in {"quota": quota, "limit": limit, "max_priority": max_priority}.items():
        if text is not None:
            changes[key] = _count(key, text)
    if group is not None:
        changes["group"] = None if group == NONE else group
    if not changes:
        raise InputError("nothing to change", "at least one option", "penstock tenants set --help lists them")
    with connect() as client:
        found = client.set_tenant(tenant, **changes)
    bounds = ("none" if bound is None else str(bound) for bound in (found.quota, found.limit))
    say(f"{found.name}: share {found.share:g}, quota {next(bounds)}, limit {next(bounds)}")


@app.command("remove")
def remove_tenant(tenant: TenantArgument) -> None:
    """Forget a tenant that has no jobs, or a group without members."""
    with connect() as client:
        client.remove_tenant(tenant)
    say(f"{tenant} is removed")


def _count(key: str, text: str) -> int | None:
    if text == NONE:
        return None
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--{key.replace('_', '-')} {text}", f"a whole number, or {NONE}") from None
