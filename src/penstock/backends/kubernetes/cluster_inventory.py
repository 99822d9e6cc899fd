"""Which devices a cluster has now and which of them cannot be used, kept up to date by two watches."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.backends.base import BackendError
from penstock.backends.kubernetes.cluster_api import ClusterApi
from penstock.backends.kubernetes.cluster_nodes import DeviceNode, device_nodes, trimmed_node
from penstock.backends.kubernetes.foreign_pods import LIVING, ForeignPods, trimmed_pod
from penstock.backends.kubernetes.object_watch import ObjectWatch
from penstock.backends.kubernetes.settings import KubernetesSettings
from penstock.core import DeviceSlot, Node, UnknownNameError

FIRST_LIST_S = 60.0


@dataclass(frozen=True, slots=True)
class _Picture:
    nodes: tuple[DeviceNode, ...] = ()
    unusable: Mapping[DeviceSlot, str] = field(default_factory=dict)
    revision: tuple[int, int] = (-1, -1)


class ClusterInventory:
    """Answers from memory; what has changed in the cluster is known within moments, and nothing is asked for again."""

    def __init__(self, api: ClusterApi, settings: KubernetesSettings, installation: str) -> None:
        self._settings = settings
        query = {"labelSelector": settings.node_selector} if settings.node_selector else {}
        self._nodes = ObjectWatch(api, "/api/v1/nodes", query=query, trim=trimmed_node)
        self._pods = ObjectWatch(api, "/api/v1/pods", query={"fieldSelector": LIVING}, trim=trimmed_pod)
        self._foreign = ForeignPods(installation)
        self._picture = _Picture()

    def start(self) -> None:
        """Returns when both lists are there; raises if they do not come."""
        for watch in (self._nodes, self._pods):
            watch.start()
        for watch in (self._nodes, self._pods):
            if not watch.wait_for_list(FIRST_LIST_S):
                raise BackendError(f"nodes and pods could not be listed within {FIRST_LIST_S:g} s: {watch.failure}")

    def stop(self) -> None:
        self._nodes.stop()
        self._pods.stop()

    def nodes(self) -> tuple[Node, ...]:
        return tuple(one.node for one in self._current().nodes)

    def unusable(self) -> Mapping[DeviceSlot, str]:
        return self._current().unusable

    def device_node(self, name: str) -> DeviceNode:
        """The node of that name, with the machine and the resource behind it."""
        nodes = self._current().nodes
        for one in nodes:
            if one.node.name == name:
                return one
        raise UnknownNameError.of("node", name, [one.node.name for one in nodes], "Ask the backend for its nodes")

    def _current(self) -> _Picture:
        revision = (self._nodes.revision, self._pods.revision)
        if revision != self._picture.revision:
            self._picture = self._drawn(revision)
        return self._picture

    def _drawn(self, revision: tuple[int, int]) -> _Picture:
        nodes = self._picture.nodes
        if revision[0] != self._picture.revision[0]:
            hosts = self._nodes.objects()
            nodes = tuple(one for name in sorted(hosts) for one in device_nodes(hosts[name], self._settings))
        unusable = self._foreign.held(nodes, self._pods.objects())
        for one in nodes:
            if one.fault:
                unusable |= {DeviceSlot(one.node.name, slot): one.fault for slot in range(one.node.device_count)}
        return _Picture(nodes, unusable, revision)
