"""One pod on a node: started, watched, restarted as its policy says, ended within its grace, and told of."""

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.tools.kubernetes.container import Container, Manifest, MissingError
from tests.tools.kubernetes.rest import Rest

POLL_S = 0.05
_ABSENT_IMAGE = "no-such"
"""An image with this in its name cannot be pulled."""


def timestamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class PodRunner:
    """``silent`` says whether the node does not speak to the cluster: the pod goes on, and nobody hears of it."""

    def __init__(
        self,
        rest: Rest,
        pod: Manifest,
        directory: Path,
        devices: Mapping[str, str],
        before: Sequence[str],
        silent: Callable[[], bool],
    ) -> None:
        self._rest = rest
        self._pod = pod
        self._silent = silent
        self._path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        directory.mkdir(parents=True)
        self.containers = [Container(pod, spec, directory, devices, before) for spec in pod["spec"]["containers"]]
        self._states: dict[str, Manifest] = {}
        self._deletion_grace_s: float | None = None
        self._wake = threading.Event()
        self._lost = False
        self._told: Manifest | None = None
        self._evicted = ""
        self.thread = threading.Thread(target=self._run, daemon=True, name=f"pod {pod['metadata']['name']}")

    @property
    def holds_devices(self) -> bool:
        return self.thread.is_alive()

    def delete(self, grace_s: float) -> None:
        """The API server wants it gone; a shorter grace counts."""
        if self._deletion_grace_s is None or grace_s < self._deletion_grace_s:
            self._deletion_grace_s = grace_s
            self._wake.set()

    def lose(self) -> None:
        """The machine is gone: everything dies, and nobody tells."""
        self._lost = True
        self._wake.set()

    def evict(self, why: str) -> None:
        """The node is short of something: it ends the pod, which stays as failed."""
        self._evicted = why
        self._wake.set()

    def _run(self) -> None:
        if self._pull() and self._start_all():
            self._watch()
        self._end()

    def _pull(self) -> bool:
        for container, spec in zip(self.containers, self._pod["spec"]["containers"], strict=True):
            if _ABSENT_IMAGE in spec["image"]:
                words = f'failed to pull image "{spec["image"]}": not found'
                self._states[container.name] = {"waiting": {"reason": "ErrImagePull", "message": words}}
                self._tell("Pending")
                self._await_deletion()
                return False
        return True

    def _start_all(self) -> bool:
        for container in self.containers:
            if not self._start(container):
                return False
        self._tell("Running")
        return True

    def _start(self, container: Container) -> bool:
        while self._deletion_grace_s is None and not self._lost:
            try:
                container.start(self._lookup)
            except MissingError as missing:
                state = {"waiting": {"reason": "ContainerCreating", "message": str(missing)}}
            except OSError as error:
                state = {"terminated": {"exitCode": 128, "reason": "StartError", "message": str(error)}}
                self._states[container.name] = state
                return True
            else:
                self._states[container.name] = {"running": {"startedAt": timestamp()}}
                return True
            if self._states.get(container.name) != state:
                self._states[container.name] = state
                self._tell("Pending")
            self._wake.wait(0.2)
        return False

    def _watch(self) -> None:
        while self._deletion_grace_s is None and not self._lost and not self._evicted:
            for container in self.containers:
                self._look_at(container)
            if all("terminated" in state for state in self._states.values()):
                codes = [state["terminated"]["exitCode"] for state in self._states.values()]
                self._tell("Failed" if any(codes) else "Succeeded")
                return
            self._wake.wait(POLL_S)
            self._wake.clear()

    def _look_at(self, container: Container) -> None:
        if "running" not in self._states[container.name] or (code := container.poll()) is None:
            return
        policy = self._pod["spec"].get("restartPolicy", "Always")
        if policy == "Always" or (policy == "OnFailure" and code):
            container.restarts += 1
            self._start(container)
            self._tell("Running")
            return
        self._states[container.name] = _terminated(container, code)

    def _end(self) -> None:
        """Wait to be asked to go, then ask the containers, kill those that stay, and confirm."""
        if self._evicted:
            self._stop_all(0.0)
            self._tell("Failed", reason="Evicted", message=self._evicted)
        self._await_deletion()
        self._stop_all(0.0 if self._lost else self._deletion_grace_s or 0.0)
        while self._silent() and not self._lost:
            self._wake.wait(POLL_S)
        if not self._lost:
            self._tell(None)
            self._rest.delete(self._path, gracePeriodSeconds=0, preconditions={"uid": self._pod["metadata"]["uid"]})

    def _await_deletion(self) -> None:
        while self._deletion_grace_s is None and not self._lost:
            self._wake.wait()
            self._wake.clear()

    def _stop_all(self, grace_s: float) -> None:
        for container in self.containers:
            container.signal(signal.SIGTERM if grace_s > 0 else signal.SIGKILL)
        asked_at = time.monotonic()
        while running := [one for one in self.containers if one.process is not None and one.poll() is None]:
            grace_s = min(grace_s, self._deletion_grace_s if self._deletion_grace_s is not None else grace_s)
            if self._lost or time.monotonic() - asked_at >= grace_s:
                for container in running:
                    container.signal(signal.SIGKILL)
            time.sleep(POLL_S)
        for container in self.containers:
            if "running" in self._states.get(container.name, {}):
                self._states[container.name] = _terminated(container, container.poll() or 0)

    def _lookup(self, kind: str, name: str) -> Manifest | None:
        namespace = self._pod["metadata"]["namespace"]
        return self._rest.find(f"/api/v1/namespaces/{namespace}/{kind}/{name}")

    def _tell(self, phase: str | None, **more: Any) -> None:
        """Write the pod's status, as soon as the node speaks; ``None`` for a pod that ends by deletion."""
        while self._silent() and not self._lost:
            time.sleep(POLL_S)
        if self._lost:
            return
        ready = "True" if phase == "Running" else "False"
        status: Manifest = {
            "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}], "hostIP": "127.0.0.1",
            "conditions": [{"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")],
            "containerStatuses": [self._status_of(one) for one in self.containers if one.name in self._states],
            **more,
        }  # fmt: skip
        if phase is not None:
            status["phase"] = phase
        self._rest.patch(f"{self._path}/status", {"status": status}, "application/strategic-merge-patch+json")

    def _status_of(self, container: Container) -> Manifest:
        state = self._states[container.name]
        image = next(one["image"] for one in self._pod["spec"]["containers"] if one["name"] == container.name)
        return {
            "name": container.name, "image": image, "imageID": image, "ready": "running" in state,
            "restartCount": container.restarts, "state": state, "lastState": {},
        }  # fmt: skip


def _terminated(container: Container, code: int) -> Manifest:
    reason = "OOMKilled" if container.out_of_memory else "Error" if code else "Completed"
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": timestamp()}}
