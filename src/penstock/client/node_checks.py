"""Nodes checked by the platform itself: one small job for each, which asks for the check and runs there alone.

So nobody needs a way to the nodes besides the one that jobs take. The job does nothing once its node is fit; what the
check found is what every job's check finds, and stays with the node: it is drained, or known to be fit from then on.
A node that is in use is told as busy, or its check waits like any other job until it is that job's turn there.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.client.http import Client
from penstock.core import InputError, PreflightLevel, UnknownNameError
from penstock.wire import OVER, NodeView

_LOOK_S = 0.5
_NO_NAME = re.compile(r"[^A-Za-z0-9]+")
_DRAINED = "drained: preflight: "
_FOLDER = "/tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedNode:
    """What became of one node; ``fit`` is none where it could not be checked, ``reason`` says why."""

    node: str
    fit: bool | None
    reason: str = ""
    job: str = ""

    def to_data(self) -> dict[str, Any]:
        return asdict(self)


def check_nodes(
    client: Client,
    names: Sequence[str],
    *,
    level: PreflightLevel = PreflightLevel.FULL,
    folder: str | None = None,
    wait_s: float = 0.0,
    within_s: float = 1800.0,
    say: Callable[[str], None] = lambda _: None,
) -> list[CheckedNode]:
    """Check nodes of a platform, all at once, each on all of its devices; ``folder`` of theirs is where disks are
    measured. Nodes in use are waited for as long as ``wait_s``; without that nobody is disturbed. What has not begun
    then, or not ended ``within_s`` after that, is cancelled."""
    nodes = _known(client, names)
    found = {node.name: _busy(node, "") for node in nodes if node.jobs and not wait_s}
    jobs: dict[str, str] = {}
    try:
        for node in nodes:
            if node.name not in found:
                jobs[node.name] = client.submit(_spec(node, level, folder or _FOLDER)).job.id
                waits = f" when {', '.join(node.jobs)} made way" if node.jobs else ""
                say(f"{jobs[node.name]} checks {node.name}{waits}")
        begin = time.monotonic() + wait_s
        found |= _outcomes(client, jobs, begin, begin + within_s)
    finally:
        for job in jobs.values():
            if client.job(job).state not in OVER:
                client.cancel(job)
    return [found[node.name] for node in nodes]


def _outcomes(client: Client, jobs: Mapping[str, str], begin: float, end: float) -> dict[str, CheckedNode]:
    """What comes of the jobs, which should have devices by ``begin`` and be over by ``end``."""
    found: dict[str, CheckedNode] = {}
    while left := [name for name in jobs if name not in found]:
        now = time.monotonic()
        seen = [_outcome(client, name, jobs[name], may_wait=now < begin, in_time=now < end) for name in left]
        found |= {each.node: each for each in seen if each is not None}
        time.sleep(_LOOK_S)
    return found


def _busy(node: NodeView, job_id: str) -> CheckedNode:
    holders = ", ".join(job for job in node.jobs if job != job_id)
    reason = f"busy: its devices are in use by {holders}; --wait TIME waits for them"
    return CheckedNode(node=node.name, fit=None, job=job_id, reason=reason)


def _known(client: Client, names: Sequence[str]) -> list[NodeView]:
    there = {node.name: node for node in client.nodes()}
    if not names or len(set(names)) != len(names):
        raise InputError(f"nodes {', '.join(names)!r}", "names, each once", 'For example "a,b,c"')
    for name in names:
        if name not in there:
            raise UnknownNameError.of("node", name, there)
        if there[name].state != "up":
            raise InputError(
                f"node {name} is {there[name].state}: no job runs there", "nodes that are up",
                f"`penstock nodes undrain {name}`, or check it by --through",
            )  # fmt: skip
    return [there[name] for name in names]


def _spec(node: NodeView, level: PreflightLevel, folder: str) -> dict[str, Any]:
    return {
        "name": f"preflight-{_NO_NAME.sub('-', node.name)}"[:63].rstrip("-"), "command": ["true"], "work": "1 step",
        "devices": len(node.devices), "kinds": [node.kind], "nodes": [node.name], "resumable": False, "retries": 0,
        "profile": "never", "preflight": {"level": level.value, "again_after": "0s"},
        "environment": {"working_dir": folder},
    }  # fmt: skip


def _outcome(client: Client, name: str, job_id: str, *, may_wait: bool, in_time: bool) -> CheckedNode | None:
    """What is known of a node's check by now; nothing while it goes on."""
    job = client.job(job_id)
    node = next(each for each in client.nodes() if each.name == name)
    told = {"node": name, "job": job_id}
    if (why := _drain_reason(node)) is not None:
        return CheckedNode(**told, fit=False, reason=why)
    if node.checked_at is not None and node.checked_at >= job.submitted_at:
        return CheckedNode(**told, fit=True)
    if job.state in OVER:
        return CheckedNode(**told, fit=False if job.state == "failed" else None, reason=job.reason or job.state)
    if not (may_wait or job.devices or job.history) and set(node.jobs) - {job_id}:
        return _busy(node, job_id)
    return None if in_time else CheckedNode(**told, fit=None, reason="its check has not ended in time")


def _drain_reason(node: NodeView) -> str | None:
    return next((why.removeprefix(_DRAINED) for why in node.unusable if why.startswith(_DRAINED)), None)
