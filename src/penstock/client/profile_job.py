"""Short runs of a job on a few numbers of devices, so that a quote for it rests on measurements.

Each is an ordinary job of the platform, at best effort and cancelled when it has shown enough; the server watches it as
it watches every run, and what it learns holds for all jobs of the same fingerprint.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from penstock.client.http import Client
from penstock.wire import OVER, UnavailableError

_PATIENCE_S = 90.0
"""How long a run may take to its first step, the wait for free devices included."""

_GOALS = ("goal", "deadline", "best_effort")


def probe(
    client: Client, spec: Mapping[str, Any], *, seconds: float = 8.0, say: Callable[[str], None] = lambda _: None
) -> dict[int, float]:
    """Steps per second by number of devices, seen from outside; 0 where a run ended or waited too long to tell."""
    from penstock.learn import profiling_plan
    from penstock.spec import parse_job

    file = parse_job(spec)
    there = sum(len(node.devices) for node in client.nodes() if node.state == "up")
    resumable = file.says_resumable
    least, most = (
        file.device_bounds(resumable=resumable).min,
        min(there, file.most_devices(resumable=resumable) or there),
    )
    if most < least:
        raise UnavailableError(f"{there} devices are up, the job needs at least {least}", "as many devices as it needs")
    rates = {}
    for count in profiling_plan(most, min_devices=least):
        plain = {key: value for key, value in spec.items() if key not in _GOALS}
        name = f"{file.name[:50]}-on-{count}"
        rates[count] = watch(client, plain | {"devices": str(count), "name": name, "profile": "never"}, seconds, say)
    return rates


def watch(
    client: Client, spec: Mapping[str, Any], seconds: float, say: Callable[[str], None] = lambda _: None
) -> float:
    """Steps per second of one short run."""
    job = client.submit(spec).job.id
    say(f"{job}: watching {spec.get('name', 'it')} for {seconds:.0f} s")
    try:
        start = _first_step(client, job, time.monotonic() + _PATIENCE_S)
        end = _later(client, job, start, seconds)
        return (end[1] - start[1]) / (end[0] - start[0]) if start[1] and end[0] > start[0] else 0.0
    finally:
        if client.job(job).state not in OVER:
            client.cancel(job)


def _first_step(client: Client, job: str, deadline: float) -> tuple[float, int]:
    while (point := _point(client, job))[1] < 1 and time.monotonic() < deadline:
        if client.job(job).state in OVER:
            break
        time.sleep(0.2)
    return point


def _later(client: Client, job: str, start: tuple[float, int], seconds: float) -> tuple[float, int]:
    """Where the run is after some seconds, or at its end."""
    until = time.monotonic() + seconds
    while start[1] and time.monotonic() < until and client.job(job).state not in OVER:
        time.sleep(0.2)
    return _point(client, job)


def _point(client: Client, job: str) -> tuple[float, int]:
    """When the run last told, and the step it was at."""
    progress = client.job(job).progress
    if progress is None or progress.told_at is None:
        return 0.0, 0
    return progress.told_at.timestamp(), progress.step or 0
