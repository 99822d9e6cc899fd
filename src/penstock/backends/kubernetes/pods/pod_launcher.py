"""The pods of one run, created and deleted for its agent, and what the cluster tells of them.

A run has one Secret that owns its pods. Requests run in threads, one watch follows the run's pods; everything is told
to the agent in its own event loop, each part's end once. What the cluster may answer differently later (no quota left,
an API server that restarts) is a wait and tried again; what it never will accept ends the part with its words.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from penstock.backends.agent.background_tasks import BackgroundTasks
from penstock.backends.agent.parts import Part, PartEnd, PartFate, PartListener, PartRun
from penstock.backends.base import BackendError
from penstock.backends.kubernetes.cluster_api import ClusterApi, ClusterApiError, Manifest
from penstock.backends.kubernetes.labels import PART
from penstock.backends.kubernetes.object_watch import ObjectWatch
from penstock.backends.kubernetes.pods.pod_condition import Wait, ended, node_fault, seems_lost, vanished, waiting
from penstock.backends.kubernetes.pods.pod_manifest import RunOwner, pod_manifest, secret_manifest
from penstock.backends.kubernetes.pods.run_removal import SHORTEST_GRACE_S, remove_run
from penstock.backends.kubernetes.settings import KubernetesSettings

_log = logging.getLogger(__name__)

T = TypeVar("T")

_NEVER = frozenset({400, 422})
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_THREADS = 8
_LOOK_AGAIN_S = 0.1
LOOK_S = 1.0
"""How often to look again at nodes whose pods are not ready."""


@dataclass(slots=True)
class _Pod:
    part: Part
    ended: bool = False
    created: bool = False
    words: str = ""
    patience: asyncio.TimerHandle | None = None
    waits_for: Wait | None = None
    suspected: bool = False
    host: str = ""


def pod_launcher(run: PartRun, listener: PartListener) -> "PodLauncher":
    """The factory that agents are given; ``settings`` are the backend's, with the name of its installation."""
    values = dict(run.settings)
    installation = str(values.pop("installation"))
    settings = KubernetesSettings.of(values)
    api = ClusterApi(context=settings.context, kubeconfig=settings.kubeconfig)
    owner = RunOwner(installation=installation, run_id=run.run_id, namespace=settings.namespace)
    return PodLauncher(api, settings, owner, listener, is_new=run.is_new)


class PodLauncher:
    """The :class:`~penstock.backends.agent.parts.PartLauncher` of Kubernetes."""

    def __init__(
        self,
        api: ClusterApi,
        settings: KubernetesSettings,
        owner: RunOwner,
        listener: PartListener,
        *,
        is_new: bool = False,
    ) -> None:
        self._api = api
        self._settings = settings
        self._owner = owner
        self._listener = listener
        self._is_new = is_new
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="cluster")
        self._pods: dict[str, _Pod] = {}
        self._tasks = BackgroundTasks()
        self._secret_made = asyncio.Lock()
        self._base = f"/api/v1/namespaces/{owner.namespace}"
        self._watch = ObjectWatch(
            api, f"{self._base}/pods", query={"labelSelector": owner.selector}, changed=self._changed,
            begins_cached=True,
        )  # fmt: skip
        self._watching = threading.Event()

    async def clear(self) -> None:
        if not self._is_new:
            await self._removed()

    async def create(self, part: Part) -> None:
        if part.name not in self._pods:
            self._pods[part.name] = _Pod(part)
            self._start_watch()
            self._tasks.start(self._create(self._pods[part.name]))

    async def delete(self, name: str, grace_s: float) -> None:
        pod = self._pods.get(name)
        if pod is None or pod.ended:
            return
        self._calm(pod)
        self._tasks.start(self._delete(pod, grace_s))

    async def close(self) -> None:
        for pod in self._pods.values():
            self._calm(pod)
        self._tasks.cancel()
        await self._tasks.settle()
        self._watch.stop()
        if self._pods:
            await self._removed()
        self._executor.shutdown(wait=False)
        self._api.close()

    # --- requests -----------------------------------------------------------------------------------------------

    async def _create(self, pod: _Pod) -> None:
        name = pod.part.name
        try:
            await self._ensure_secret(pod.part)
            await self._insistently(lambda: self._create_pod(pod.part), name)
        except ClusterApiError as error:
            self._end(pod, PartEnd(fate=PartFate.REFUSED, words=error.words))
            return
        if not pod.ended:
            pod.created = True
            self._listener.on_part_created(name, f"{self._owner.namespace}/{self._owner.pod_name(name)}")

    async def _ensure_secret(self, part: Part) -> None:
        async with self._secret_made:
            if not self._owner.uid:
                uid = await self._insistently(lambda: self._create_secret(part.secret), part.name)
                self._owner = replace(self._owner, uid=uid)

    def _create_secret(self, secret: str) -> str:
        """The uid of this run's Secret, with this secret in it: one of an earlier agent is replaced."""
        manifest = secret_manifest(self._owner, secret)
        try:
            made = self._api.create(f"{self._base}/secrets", manifest)
        except ClusterApiError as error:
            if error.status != 409:
                raise
            made = self._api.patch(f"{self._base}/secrets/{self._owner.name}", {"stringData": manifest["stringData"]})
        return str(made["metadata"]["uid"])

    def _create_pod(self, part: Part) -> None:
        try:
            self._api.create(f"{self._base}/pods", pod_manifest(part, self._owner, self._settings))
        except ClusterApiError as error:
            if error.status != 409 or ("AlreadyExists" not in error.words and "already exists" not in error.words):
                raise

    async def _delete(self, pod: _Pod, grace_s: float) -> None:
        path = f"{self._base}/pods/{self._owner.pod_name(pod.part.name)}"
        if pod.created or self._owner.uid:
            await self._insistently(lambda: self._api.delete(path, max(SHORTEST_GRACE_S, grace_s)), "")
            if await self._insistently(lambda: self._api.find(path), "") is not None:
                return  # its end is heard of by the watch
        self._end(pod, PartEnd(fate=PartFate.DELETED, words="the pod was deleted"))

    async def _removed(self) -> None:
        while not await self._insistently(lambda: remove_run(self._api, self._owner), ""):
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _insistently(self, ask: Callable[[], T], part: str) -> T:
        """Ask until there is an answer; what is in the way meanwhile is told as what ``part`` waits for."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await self._loop.run_in_executor(self._executor, ask)
            except BackendError as error:
                if isinstance(error, ClusterApiError) and error.status in _NEVER:
                    raise
                words = error.words if isinstance(error, ClusterApiError) else str(error)
            if (pod := self._pods.get(part)) is not None and not pod.ended:
                self._tell_wait(pod, words)
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)

    # --- what the cluster tells -----------------------------------------------------------------------------------

    def _start_watch(self) -> None:
        if not self._watching.is_set():
            self._watching.set()
            self._watch.start()

    def _changed(self, _name: str, found: Manifest, there: bool) -> None:
        """In the watch's thread."""
        try:
            self._loop.call_soon_threadsafe(self._see, found, there)
        except RuntimeError:
            _log.debug("a run's event loop is closed already")

    def _see(self, found: Manifest, there: bool) -> None:
        name = (found["metadata"].get("annotations") or {}).get(PART, "")
        pod = self._pods.get(name)
        if pod is None or pod.ended:
            return
        if not there:
            self._end(pod, vanished(found))
        elif (end := ended(found)) is not None:
            self._end(pod, end)
            self._tasks.start(self._delete(pod, 0.0))
        elif (why := waiting(found)) is not None:
            self._wait(pod, why.wait, why.words)
        else:
            self._calm(pod)
            if seems_lost(found) and not pod.suspected:
                pod.suspected, pod.host = True, found["spec"].get("nodeName", "")
                self._tasks.start(self._suspect(pod))
            elif not seems_lost(found):
                pod.suspected = False

    async def _suspect(self, pod: _Pod) -> None:
        """A pod is not ready, or to go: as long as that is so, look whether its node is lost."""
        path = f"{self._base}/pods/{self._owner.pod_name(pod.part.name)}"
        while pod.suspected and not pod.ended:
            node = await self._insistently(lambda: self._api.find(f"/api/v1/nodes/{pod.host}"), "")
            if fault := node_fault(node):
                await self._insistently(lambda: self._api.delete(path, 0.0), "")
                self._end(pod, PartEnd(fate=PartFate.NODE_LOST, words=fault))
                return
            await asyncio.sleep(LOOK_S)

    def _wait(self, pod: _Pod, wait: Wait, words: str) -> None:
        self._tell_wait(pod, words)
        if wait is pod.waits_for:
            return
        self._calm(pod)
        pod.waits_for = wait
        allowed = {Wait.ROOM: self._settings.schedule_timeout_s, Wait.IMAGE: self._settings.pull_timeout_s}
        pod.patience = self._loop.call_later(allowed.get(wait, 0.0), self._give_up, pod)

    def _tell_wait(self, pod: _Pod, words: str) -> None:
        if words != pod.words:
            pod.words = words
            self._listener.on_part_waiting(pod.part.name, words)

    def _give_up(self, pod: _Pod) -> None:
        if not pod.ended:
            self._end(pod, PartEnd(fate=PartFate.REFUSED, words=pod.words))
            self._tasks.start(self._delete(pod, 0.0))

    def _calm(self, pod: _Pod) -> None:
        if pod.patience is not None:
            pod.patience.cancel()
        pod.patience = pod.waits_for = None

    def _end(self, pod: _Pod, end: PartEnd) -> None:
        if not pod.ended:
            pod.ended = True
            self._calm(pod)
            self._listener.on_part_ended(pod.part.name, end)
