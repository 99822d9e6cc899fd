"""A namespace and nodes of a test's own in the control plane that all tests share."""

import json
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.testing import until
from tests.tools.kubernetes.control_plane import ControlPlane
from tests.tools.kubernetes.kubelet import Kubelet, NodeShape
from tests.tools.kubernetes.rest import Manifest, Rest

LABEL = "tests/site"


@dataclass(frozen=True, slots=True)
class Testbed:
    """``nodes`` in the order in which they were asked for; ``selector`` finds them and no others."""

    __test__ = False

    plane: ControlPlane
    rest: Rest
    kubelet: Kubelet
    namespace: str
    nodes: tuple[str, ...]

    @property
    def selector(self) -> str:
        return f"{LABEL}={self.namespace}"

    def server_settings(self, **more: object) -> str:
        """The configuration file of a server that uses this; ``more`` are settings of the backend."""
        settings = {
            "namespace": self.namespace, "kubeconfig": str(self.plane.kubeconfig), "node_selector": self.selector,
            "python": sys.executable, "agent_host": "127.0.0.1", "node_lost_after_s": 1, **more,
        }  # fmt: skip
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        return "\n".join(['backend = "kubernetes"', "[backend_settings]", *lines])

    def pods(self) -> list[Manifest]:
        found: list[Manifest] = self.rest.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return found

    def pod_path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"


@contextmanager
def opened_testbed(
    plane: ControlPlane,
    directory: Path,
    resources: Sequence[Mapping[str, str]],
    labels: Mapping[str, str] | None = None,
    before: Mapping[int, Sequence[str]] | None = None,
) -> Iterator[Testbed]:
    """One node for each of ``resources``; all is gone afterwards. ``before`` has commands in front of all that some of
    the nodes start."""
    rest = plane.rest()
    namespace = f"test-{secrets.token_hex(4)}"
    rest.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    shapes = [
        NodeShape(
            name=f"{namespace}-{i}",
            resources=one,
            labels={LABEL: namespace, **(labels or {})},
            before=tuple((before or {}).get(i, ())),
        )
        for i, one in enumerate(resources)
    ]
    kubelet = Kubelet(plane, shapes, directory / "kubelet")
    kubelet.start()
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    try:
        until(lambda: (rest.find(account) or {}).get("secrets"), "the token of the namespace's service account")
        yield Testbed(plane, rest, kubelet, namespace, tuple(shape.name for shape in shapes))
    finally:
        kubelet.stop()
        for pod in rest.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
            rest.delete(f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}", gracePeriodSeconds=0)
        rest.delete(f"/api/v1/namespaces/{namespace}")
