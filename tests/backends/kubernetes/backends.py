"""Backends on a testbed: its nodes and namespace, this machine's Python, and their end."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.backends import KubernetesBackend, KubernetesSettings
from penstock.backends.testing import until
from tests.tools.kubernetes import Testbed


def settings_for(testbed: Testbed, **values: Any) -> KubernetesSettings:
    usual = {
        "namespace": testbed.namespace, "kubeconfig": str(testbed.plane.kubeconfig), "node_selector": testbed.selector,
        "python": sys.executable, "agent_host": "127.0.0.1", "schedule_timeout_s": 3.0, "pull_timeout_s": 3.0,
        "node_lost_after_s": 1.0,
    }  # fmt: skip
    return KubernetesSettings(**{**usual, **values})


def ended_backends(backends: Sequence[KubernetesBackend]) -> None:
    """Every run is over, and nothing of them is left in the cluster."""
    if backends:
        last = backends[-1]
        for run in last.runs():
            if run.alive:
                last.stop(run.run_id, 0.0)
        until(lambda: not any(run.alive for run in last.runs()), "all agents to leave")
    for backend in backends:
        backend.close()


@contextmanager
def backend_on(testbed: Testbed, state_dir: Path, **values: Any) -> Iterator[KubernetesBackend]:
    backend = KubernetesBackend(state_dir, settings_for(testbed, **values))
    try:
        yield backend
    finally:
        ended_backends([backend])
