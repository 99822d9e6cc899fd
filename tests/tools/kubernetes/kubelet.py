"""Nodes with devices that exist by name: registered, kept alive by leases, running pods as local processes.

One kubelet stands for several nodes. Told to, one of them falls silent (its pods go on, unheard) or is lost with all
its processes, as when a machine loses its power.
"""

import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.tools.kubernetes.container import Manifest
from tests.tools.kubernetes.control_plane import ControlPlane
from tests.tools.kubernetes.kubelet_server import KubeletServer
from tests.tools.kubernetes.pod_runner import PodRunner, timestamp

HEARTBEAT_S = 1.0
PATIENCE_S = 60.0
"""How long an API server may be away before a kubelet gives up."""
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_VISIBLE = {"nvidia.com/gpu": "NVIDIA_VISIBLE_DEVICES", "amd.com/gpu": "AMD_VISIBLE_DEVICES"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """A node to be: what it has, how it is labelled, and a command ``before`` every process that it starts, such as one
    that limits it."""

    name: str
    resources: Mapping[str, str] = field(default_factory=lambda: {"cpu": "8", "memory": "32Gi"})
    labels: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()

    @property
    def allocatable(self) -> dict[str, str]:
        return {"cpu": "8", "memory": "32Gi", "pods": "110", **self.resources}


class Kubelet:
    """Call :meth:`start`, then :meth:`stop`."""

    def __init__(self, plane: ControlPlane, shapes: Sequence[NodeShape], directory: Path) -> None:
        self._rest = plane.rest(PATIENCE_S)
        self._shapes = {shape.name: shape for shape in shapes}
        self._directory = directory
        self._runners: dict[str, PodRunner] = {}
        self._devices: dict[str, dict[str, dict[int, str]]] = {name: {} for name in self._shapes}
        self._silent: set[str] = set()
        self._ended = threading.Event()
        self._lock, self._starting = threading.Lock(), threading.Lock()
        self._server = KubeletServer(plane.kubelet_certificate, self._log_of)
        self._threads = [
            threading.Thread(target=run, daemon=True, name=run.__name__) for run in (self._beat, self._follow)
        ]

    def start(self) -> None:
        self._server.start()
        for shape in self._shapes.values():
            self._register(shape)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Every process and node of it is gone."""
        self._ended.set()
        for runner in self._runners.values():
            runner.lose()
        for runner in self._runners.values():
            if runner.thread.is_alive():
                runner.thread.join(10)
        for name in self._shapes:
            self._rest.delete(f"/api/v1/nodes/{name}")
            self._rest.delete(f"{_LEASES}/{name}")
        self._server.stop()

    def silence(self, node: str) -> None:
        """No heartbeat and no word of its pods until :meth:`speak`."""
        self._silent.add(node)

    def speak(self, node: str) -> None:
        """It is back, and hears what it missed: pods that were bound to it meanwhile begin, those deleted end."""
        self._silent.discard(node)
        with suppress(OSError, AssertionError):  # the API server is away: the next list tells it
            self._list()

    def lose(self, node: str) -> None:
        """The machine is gone with all its processes."""
        self.silence(node)
        for runner in self._on(node):
            runner.lose()

    def evict(self, pod: str, why: str = "The node was low on resource: memory.") -> None:
        next(one for one in self._runners.values() if one._pod["metadata"]["name"] == pod).evict(why)

    def _runner(self, pod: Manifest, devices: Mapping[str, str]) -> PodRunner:
        node: str = pod["spec"]["nodeName"]
        place, before = self._directory / pod["metadata"]["uid"], self._shapes[node].before
        return PodRunner(self._rest, pod, place, devices, before, lambda: node in self._silent)

    def _on(self, node: str) -> list[PodRunner]:
        return [one for one in self._runners.values() if one._pod["spec"]["nodeName"] == node]

    # --- the node -----------------------------------------------------------------------------------------------

    def _register(self, shape: NodeShape) -> None:
        metadata = {"name": shape.name, "labels": {"kubernetes.io/hostname": shape.name, **shape.labels}}
        self._rest.post("/api/v1/nodes", {"metadata": metadata, "spec": {}})
        spec = {"holderIdentity": shape.name, "leaseDurationSeconds": 40, "renewTime": _micro_time()}
        self._rest.post(_LEASES, {"metadata": {"name": shape.name}, "spec": spec})
        self._rest.patch(f"/api/v1/nodes/{shape.name}/status", {"status": self._node_status(shape)})

    def _node_status(self, shape: NodeShape) -> Manifest:
        now = timestamp()
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "the tests' kubelet is ready"}
        return {
            "capacity": shape.allocatable, "allocatable": shape.allocatable,
            "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._server.port}},
        }  # fmt: skip

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            for name, shape in self._shapes.items():
                if name not in self._silent and not self._ended.is_set():
                    self._rest.patch(f"{_LEASES}/{name}", {"spec": {"renewTime": _micro_time()}})
                    self._revive(name, shape)

    def _revive(self, name: str, shape: NodeShape) -> None:
        """A node that was given up tells that it is back."""
        found = self._rest.find(f"/api/v1/nodes/{name}")
        ready = [one for one in (found or {}).get("status", {}).get("conditions", ()) if one["type"] == "Ready"]
        if found and (not ready or ready[0]["status"] != "True"):
            self._rest.patch(f"/api/v1/nodes/{name}/status", {"status": self._node_status(shape)})

    # --- its pods -----------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                self._follow_once()
            except (OSError, AssertionError, json.JSONDecodeError):
                self._ended.wait(0.2)  # the API server is away, or hung up on us

    def _list(self) -> str:
        """Take in all pods there are; returns the version from which on changes are to be watched."""
        listed = self._rest.get("/api/v1/pods")
        for pod in listed["items"]:
            self._see(pod)
        uids = {pod["metadata"]["uid"] for pod in listed["items"]}
        for uid, runner in list(self._runners.items()):
            if uid not in uids:
                runner.delete(0.0)
        return str(listed["metadata"]["resourceVersion"])

    def _follow_once(self) -> None:
        for event in self._rest.watch("/api/v1/pods", self._list(), 30):
            if event["type"] == "ERROR" or self._ended.is_set():
                return
            if event["type"] == "DELETED":
                self._forget(event["object"])
            elif event["type"] in ("ADDED", "MODIFIED"):
                self._see(event["object"])

    def _forget(self, pod: Manifest) -> None:
        """Deleted without us: by force."""
        if runner := self._runners.get(pod["metadata"]["uid"]):
            runner.delete(0.0)

    def _see(self, pod: Manifest) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if node not in self._shapes:
            return
        with self._starting:
            if uid not in self._runners and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                devices = self._allocate(node, pod)
                runner = self._runner(pod, devices)
                self._runners[uid] = runner
            if node not in self._silent and uid in self._runners and self._runners[uid].thread.ident is None:
                self._runners[uid].thread.start()
        if "deletionTimestamp" in pod["metadata"] and uid in self._runners and node not in self._silent:
            self._runners[uid].delete(float(pod["metadata"].get("deletionGracePeriodSeconds") or 0))

    def _allocate(self, node: str, pod: Manifest) -> dict[str, str]:
        """Devices that no living pod of the node holds, as a device plugin would make them seen."""
        found: dict[str, str] = {}
        with self._lock:
            for container in pod["spec"]["containers"]:
                for resource, count in container.get("resources", {}).get("limits", {}).items():
                    if "/" in resource:
                        found[_visible(resource)] = ",".join(self._take(node, resource, int(count), pod))
        return found

    def _take(self, node: str, resource: str, count: int, pod: Manifest) -> list[str]:
        held = self._devices[node].setdefault(resource, {})
        for index, uid in list(held.items()):
            if (holder := self._runners.get(uid)) is None or not holder.thread.is_alive():
                del held[index]
        free = [i for i in range(int(self._shapes[node].allocatable[resource])) if i not in held][:count]
        held.update(dict.fromkeys(free, pod["metadata"]["uid"]))
        return [f"{node}-{index}" for index in free]

    def _log_of(self, namespace: str, pod: str, container: str) -> tuple[Path, PodRunner] | None:
        for runner in reversed(list(self._runners.values())):
            about = runner._pod["metadata"]
            if (about["namespace"], about["name"]) == (namespace, pod):
                return next(one.log for one in runner.containers if one.name == container), runner
        return None


def _visible(resource: str) -> str:
    return _VISIBLE.get(resource) or ("ASCEND_VISIBLE_DEVICES" if "Ascend" in resource else _variable(resource))


def _variable(resource: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", resource.upper()) + "_DEVICES"


def _micro_time() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}Z"
