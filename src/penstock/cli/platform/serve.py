"""``penstock serve``: the platform in the foreground."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.terminal.console import say


def command(
    config: Annotated[
        Path | None, typer.Option(help="A configuration file (default: penstock.toml in the data dir).")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where everything is kept (default: XDG data directory).")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen (default: 127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="0 takes a free one; clients find it (default: 0).")] = None,
    database: Annotated[
        str | None, typer.Option(help="A PostgreSQL or SQLite URL (default: SQLite in the data dir).")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="Who gets how many devices (default: unified).")] = None,
    slot: Annotated[str | None, typer.Option(help="Shortest time between two decisions (default: 0s).")] = None,
    backend: Annotated[
        str | None, typer.Option(help="local, kubernetes, slurm, or module:factory (default: local).")
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="Kubernetes: the context of the kubeconfig (default: current).")
    ] = None,
    namespace: Annotated[str | None, typer.Option(help="Kubernetes: where pods run (default: penstock).")] = None,
    partition: Annotated[str | None, typer.Option(help="Slurm: the partition that jobs run in.")] = None,
    account: Annotated[str | None, typer.Option(help="Slurm: what batch jobs are charged to.")] = None,
    reservation: Annotated[str | None, typer.Option(help="Slurm: a reservation that batch jobs use.")] = None,
    owner: Annotated[bool | None, typer.Option("--owner", help="Slurm: nobody else uses these nodes.")] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Use this many CPU slots instead of accelerators, also at later starts (0: what the machine has).",
        ),
    ] = None,
    exposed: Annotated[bool | None, typer.Option("--exposed", help="Allow listening beyond this machine.")] = None,
    run_as: Annotated[
        str | None, typer.Option(help="The Unix user jobs run as; {tenant} stands for the tenant.")
    ] = None,
    accept_shared_user: Annotated[
        bool | None, typer.Option("--accept-shared-user", help="Allow tenants that can read each other's files.")
    ] = None,
    recover: Annotated[
        bool | None, typer.Option("--recover", help="Rebuild lost history from the newest backup and from the runs.")
    ] = None,
    accept_loss: Annotated[
        bool | None, typer.Option("--accept-loss", help="Start although history is missing.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Speak TLS with this certificate, in PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of that certificate, in PEM.")] = None,
    proxies: Annotated[str | None, typer.Option(help="Proxies whose word on addresses is taken: 10.0.0.7,…")] = None,
    preflight_from: Annotated[
        int | None, typer.Option(help="Check nodes before jobs on so many devices start; a job file may say otherwise.")
    ] = None,
    log_format: Annotated[str | None, typer.Option(help="text, or json: one object a line (default: text).")] = None,
) -> None:
    """Run the platform until Ctrl-C. Jobs outlive it and are found again."""
    from penstock.control import LogFormat, set_up
    from penstock.serve import load_config, serve

    flags = {
        "data_dir": data_dir, "host": host, "port": port, "database": database, "policy": policy, "slot": slot,
        "backend": backend, "slots": slots, "exposed": exposed, "log_format": log_format,
        "run_as": run_as, "accept_shared_user": accept_shared_user,
        "recover": recover, "accept_loss": accept_loss,
        "preflight_from": preflight_from, "tls_cert": tls_cert, "tls_key": tls_key, "proxies": proxies,
        "backend_settings": _given(
            context=context, namespace=namespace, partition=partition, account=account, reservation=reservation,
            owner=owner,
        ),
    }  # fmt: skip
    settings = load_config(flags, file=config)
    set_up(LogFormat.named(settings.log_format))
    serve(settings, on_ready=lambda address: say(f"Penstock serves {settings.data_dir} at {address.url}"))


def _given(**values: str | bool | None) -> dict[str, str | bool] | None:
    return {name: value for name, value in values.items() if value is not None} or None
