"""``penstock profile``: short runs of a job on a few device counts, so that quotes rest on measurements."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.console import interruptible, out, plain_table, say
from penstock.cli.session import connect
from penstock.cli.submit import BatchOption, EnvOption, SetOption, WhatArgument, WorkOption, as_spec, read_job
from penstock.cli.words import OVER

if TYPE_CHECKING:
    from penstock.control import Client

_PATIENCE_S = 90.0


def command(
    what: WhatArgument,
    work: WorkOption = None,
    batch: BatchOption = None,
    env: EnvOption = [],  # noqa: B006
    sets: SetOption = [],  # noqa: B006
    seconds: Annotated[float, typer.Option(min=5.0, help="How long to watch each width.")] = 12.0,
) -> None:
    """Measure how fast a job runs on a few device counts; each short run is cancelled when it has shown enough."""
    from penstock.estimate import profiling_plan

    file = read_job(what, work=work, best_effort=True, batch=batch, env=env, sets=sets)
    with connect() as client, interruptible():
        there = sum(len(node.devices) for node in client.nodes() if node.state == "up")
        most = min(there, file.most_devices or there)
        table = plain_table("devices", "steps/s", "speed-up")
        first = 0.0
        for count in profiling_plan(most):
            narrowed = read_job(
                what, work=work, best_effort=True, batch=batch, env=env, sets=sets, devices=f"{count}..{count}",
                name=f"profile-{count}",
            )  # fmt: skip
            rate = measure(client, as_spec(narrowed), seconds)
            first = first or rate / count
            table.add_row(str(count), f"{rate:.2f}", f"{rate / first:.2f}x")
    out.print(table)


def measure(client: "Client", spec: dict[str, Any], seconds: float) -> float:
    """Steps per second of one short run, seen from outside; the server keeps its own, finer measurement."""
    job = client.submit(spec).job.id
    say(f"{job}: watching for {seconds:.0f} s")
    try:
        start = _await_steps(client, job, 1, time.monotonic() + _PATIENCE_S)
        time.sleep(seconds)
        end = _point(client, job)
        return (end[1] - start[1]) / (end[0] - start[0]) if end[0] > start[0] else 0.0
    finally:
        if client.job(job).state not in OVER:
            client.cancel(job)


def _await_steps(client: "Client", job: str, steps: int, deadline: float) -> tuple[float, int]:
    while (point := _point(client, job))[1] < steps and time.monotonic() < deadline:
        if client.job(job).state in OVER:
            break
        time.sleep(0.2)
    return point


def _point(client: "Client", job: str) -> tuple[float, int]:
    """When the run last told, and the step it was at."""
    progress = client.job(job).progress
    if progress is None or progress.told_at is None:
        return 0.0, 0
    return progress.told_at.timestamp(), progress.step or 0
