"""``penstock token``: who may do what."""

from typing import Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table, say
from penstock.cli.terminal.format import clock
from penstock.core import InputError

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke tokens (admins only).")


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose token it is.")],
    tenant: Annotated[str, typer.Option(help="Whose jobs it may see and touch.")] = "default",
    role: Annotated[str, typer.Option(help="viewer, user, tenant-admin or admin.")] = "user",
    scope: Annotated[
        str, typer.Option(help="Only for some of that: read, submit, steer, metrics, admin, with commas between.")
    ] = "",
    expires: Annotated[str | None, typer.Option(help="After how long (30d), or when (default: never).")] = None,
) -> None:
    """Make a token. It is shown once."""
    if name.split() != [name]:
        raise InputError(f"a token called {name!r}", "one word without blanks", "Try ada, or ci-nightly")
    parts = [part.strip() for part in scope.split(",") if part.strip()]
    with connect() as client:
        made = client.make_token(name=name, tenant=tenant, role=role, scope=parts, expires=expires)
    say(f"{made.role} token {made.id} for tenant {made.tenant}; keep it, it is not shown again")
    print(made.secret)


@app.command("list")
def listing(as_json: JsonOption = False) -> None:
    """List tokens, without their secrets."""
    with connect() as client:
        tokens = client.tokens()
    if as_json:
        print_json(tokens)
        return
    table = plain_table("id", "name", "role", "tenant", "scope", "made", "expires", "last used")
    for token in tokens:
        table.add_row(
            token.id, token.name, token.role, token.tenant, ",".join(token.scope) or "all", clock(token.created_at),
            clock(token.expires_at) if token.expires_at else "never", clock(token.last_used_at),
        )  # fmt: skip
    out.print(table)


@app.command()
def revoke(token: Annotated[str, typer.Argument(help="The id of a token.")]) -> None:
    """Make a token worthless."""
    with connect() as client:
        client.revoke_token(token)
    say(f"{token} is revoked")
