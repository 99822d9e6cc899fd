"""Pods of a real control plane keep every promise of a backend."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.backends import Backend, KubernetesBackend
from penstock.backends.testing import NodeFaults, ProcessConformance
from tests.backends.kubernetes.backends import ended_backends, settings_for
from tests.tools.kubernetes import ControlPlane, Testbed, opened_testbed


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    with opened_testbed(control_plane, tmp_path_factory.mktemp("cluster"), [{"nvidia.com/gpu": "2"}] * 2) as found:
        yield found


@dataclass(frozen=True)
class TestbedFaults:
    """A cordon, and a machine whose power is cut."""

    __test__ = False

    testbed: Testbed

    def drain(self, node: str) -> None:
        self.testbed.rest.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})

    def lose(self, node: str) -> None:
        self.testbed.kubelet.lose(node)

    def restore(self, node: str) -> None:
        self.testbed.kubelet.speak(node)
        self.testbed.rest.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": False}})


class TestKubernetesBackend(ProcessConformance):
    @pytest.fixture
    def faults(self, cluster: Testbed) -> NodeFaults:
        return TestbedFaults(cluster)

    @pytest.fixture
    def opened(self, cluster: Testbed, tmp_path: Path) -> Iterator[Callable[[], Backend]]:
        opened: list[KubernetesBackend] = []

        def open_again() -> Backend:
            opened.append(KubernetesBackend(tmp_path / "state", settings_for(cluster)))
            return opened[-1]

        yield open_again
        ended_backends(opened)
        assert cluster.pods() == []
