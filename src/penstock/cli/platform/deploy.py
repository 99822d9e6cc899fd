"""``penstock deploy``: an installation in a cluster, as files or at once."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.terminal.console import say
from penstock.core import InputError

app = typer.Typer(no_args_is_help=True, help="Install the platform in a cluster.")


@app.callback()
def deploy() -> None:
    """Install the platform in a cluster."""


@app.command()
def kubernetes(
    out: Annotated[Path | None, typer.Option(help="Write the manifests there, for kubectl or kustomize.")] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Apply them to the cluster now.")] = False,
    namespace: Annotated[str, typer.Option(help="Where the platform and its jobs live.")] = "penstock",
    image: Annotated[str, typer.Option(help="The image of server and workers.")] = "penstock:latest",
    cpu_slot_cores: Annotated[float, typer.Option(min=0, help="Cores of a slot on nodes without accelerators.")] = 0.0,
    postgres: Annotated[
        bool, typer.Option("--postgres", help="With a PostgreSQL of its own instead of SQLite.")
    ] = False,
    storage_class: Annotated[str, typer.Option(help="Of the volumes (default: the cluster's default).")] = "",
    context: Annotated[str, typer.Option(help="The context of the kubeconfig (default: current).")] = "",
) -> None:
    """Namespace, custom resource, rights, storage, server, service and network policies as plain manifests."""
    from penstock.serve import Installation, apply_installation, write_installation

    if (out is None) is not apply:
        raise InputError("neither or both of --out and --apply", "one of them", "Try --out manifests")
    wanted = Installation(
        namespace=namespace, image=image, cpu_slot_cores=cpu_slot_cores, postgres=postgres, storage_class=storage_class
    )
    if out is not None:
        write_installation(wanted, out)
        say(f"Written to {out}. Next: kubectl apply -k {out}")
        return
    applied = apply_installation(wanted, context=context)
    say(f"{len(applied)} objects are as they should be in namespace {namespace}")
