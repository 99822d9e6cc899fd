"""``penstock secrets``: what jobs need and nobody may read."""

import re
import sys
from typing import Annotated

import typer

from penstock.cli.connect import connect, print_json
from penstock.cli.jobs.arguments import JsonOption
from penstock.cli.terminal.console import out, plain_table, say
from penstock.cli.terminal.format import clock
from penstock.core import SECRET_NAME, InputError

app = typer.Typer(no_args_is_help=True, help="Store secrets for jobs; a job file names those it needs.")

NameArgument = Annotated[str, typer.Argument(help="What job files call it.")]
TenantOption = Annotated[str | None, typer.Option(help="Whose it is (admins only) (default: your own tenant).")]


@app.command("set")
def put(name: NameArgument, tenant: TenantOption = None) -> None:
    """Store a secret from standard input; one line end at its end does not belong to it."""
    if not re.fullmatch(SECRET_NAME, name):
        raise InputError(
            f"a secret called {name!r}", "letters, digits, _ . and -, at most 128, and no digit first", "Try HF_TOKEN"
        )
    value = typer.prompt(name, hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    with connect() as client:
        client.set_secret(name, value.removesuffix("\n").removesuffix("\r"), tenant=tenant)
    say(f"{name} is stored; jobs that start from now on find it")


@app.command("list")
def listing(tenant: TenantOption = None, as_json: JsonOption = False) -> None:
    """List the names of secrets, without their values."""
    with connect() as client:
        stored = client.secrets(tenant=tenant)
    if as_json:
        print_json(stored)
        return
    table = plain_table("name", "tenant", "set")
    for secret in stored:
        table.add_row(secret.name, secret.tenant, clock(secret.set_at))
    out.print(table)


@app.command()
def delete(name: NameArgument, tenant: TenantOption = None) -> None:
    """Forget a secret. Jobs that have it keep it until they end."""
    with connect() as client:
        client.delete_secret(name, tenant=tenant)
    say(f"{name} is forgotten")
