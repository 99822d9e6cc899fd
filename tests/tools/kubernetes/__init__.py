"""A Kubernetes of one's own for tests: the real control plane, and a kubelet that runs containers as local processes.

The control plane is etcd, kube-apiserver, kube-controller-manager and kube-scheduler as ``make engines-kubernetes``
builds them; one serves all tests of a run. Every test has a namespace and nodes of its own in it (:class:`Testbed`).
"""

from tests.tools.kubernetes.control_plane import ControlPlane, shared_control_plane
from tests.tools.kubernetes.kubelet import Kubelet, NodeShape
from tests.tools.kubernetes.testbed import Testbed, opened_testbed

__all__ = [
    "ControlPlane",
    "Kubelet",
    "NodeShape",
    "Testbed",
    "opened_testbed",
    "shared_control_plane",
]
