"""Runs as pods of a Kubernetes cluster; their agents live beside the server, as on one machine.

The cluster starts, isolates, watches and ends processes; who gets which devices is decided here. Nothing of ours stays
in a cluster without a run: pods belong to their run's Secret, and Secrets of runs that are no more are removed when a
server starts and whenever an agent has died.
"""

import logging
import os
import secrets as random
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from penstock.backends.agent.line_certificate import line_keeper
from penstock.backends.agent.parts import PartEngine
from penstock.backends.base import BackendError, PreparationError
from penstock.backends.environments.cached_command import PREPARED, cached_commands
from penstock.backends.kubernetes.cluster_api import ClusterApi
from penstock.backends.kubernetes.cluster_inventory import ClusterInventory
from penstock.backends.kubernetes.labels import INSTALLATION, MANAGED_BY, PENSTOCK, RUN_ID
from penstock.backends.kubernetes.pods.device_claims import DeviceClaim
from penstock.backends.kubernetes.pods.pod_manifest import RunOwner
from penstock.backends.kubernetes.pods.run_removal import remove_run
from penstock.backends.kubernetes.settings import KubernetesSettings
from penstock.backends.runs.backend import (
    AgentBackend,
    AgentSettings,
    SecretValues,
    no_secrets,
    recipe_with_interpreter,
)
from penstock.core import AgentAddress, DeviceSlot, InputError, Launch, Node, Recipe, Worker
from penstock.tools import SteadyClock, write_atomically

_log = logging.getLogger(__name__)

FACTORY = "penstock.backends.kubernetes.pods.pod_launcher:pod_launcher"
HOST_S = 60.0
"""How long a pod that runs may take to be heard from."""
_OF_AGENTS = ("kubernetes.client", "kubernetes.config", FACTORY.partition(":")[0])
_OF_A_POD = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
"""By which agents find the cluster that they are in."""


class KubernetesBackend(AgentBackend):
    """The :class:`~penstock.backends.base.Backend` of a cluster.

    ``permit`` raises where this server may not change anything in the cluster (:class:`LeaderLease`).
    """

    name = "kubernetes"

    def __init__(
        self,
        state_dir: Path | str,
        settings: KubernetesSettings,
        *,
        pass_environment: Sequence[str] = (),
        secret_values: SecretValues = no_secrets,
        clock: SteadyClock | None = None,
        permit: Callable[[], None] = lambda: None,
    ) -> None:
        self._permit = permit
        settings = self._settings = _with_kubeconfig(settings)
        self._api = ClusterApi(context=settings.context, kubeconfig=settings.kubeconfig)
        self._installation = _installation(Path(state_dir).expanduser())
        engine = PartEngine(
            factory=FACTORY, settings={**settings.plain(), "installation": self._installation},
            start_limit_s=settings.schedule_timeout_s + settings.pull_timeout_s + HOST_S,
        )  # fmt: skip
        listen = AgentAddress(host=settings.agent_host or _address_towards(self._api.host), port=0)
        passed = (*pass_environment, *_OF_A_POD)
        agents = AgentSettings(
            listen=listen, engine=engine, pass_environment=passed, modules=_OF_AGENTS,
            certificate_of=line_keeper(Path(state_dir)) if settings.encrypt else None,
        )  # fmt: skip
        super().__init__(state_dir, agents, secret_values=secret_values, clock=clock)
        self._clean: set[str] = set()
        """Runs that have nothing left in the cluster."""
        self._inventory = ClusterInventory(self._api, settings, self._installation)
        self._inventory.start()
        self._require_nodes()
        self._remove_leftovers()

    def close(self) -> None:
        """Follow the cluster no longer; runs go on."""
        self._inventory.stop()

    def nodes(self) -> tuple[Node, ...]:
        return self._inventory.nodes()

    def unusable(self) -> Mapping[DeviceSlot, str]:
        return self._inventory.unusable()

    def device_environment(self, place: DeviceSlot) -> Sequence[tuple[str, str]]:
        return DeviceClaim.on(self._inventory.device_node(place.node)).variables()

    def cpu_environment(self, node: str) -> Sequence[tuple[str, str]]:
        """A worker without a device asks its machine for one core, beside whatever others hold there."""
        return (*super().cpu_environment(node), *DeviceClaim.core_beside(self._inventory.device_node(node)).variables())

    def prepare(self, recipe: Recipe, tell: Callable[[str], None]) -> Recipe:  # noqa: ARG002
        """The image, the job's own or that of its devices' kind, with what pods make ready by themselves."""
        if recipe.container is not None and recipe.container.mounts:
            raise PreparationError(
                "mounts of a job on Kubernetes", "volumes that the backend's settings name",
                "Remove environment.mounts; what pods see is the setting volumes",
            )  # fmt: skip
        if PREPARED.intersection(recipe.prepared_parts):
            return cached_commands(recipe, self._settings.python, self._settings.cache_dir)
        return recipe_with_interpreter(recipe, self._settings.python)

    def launch(self, launch: Launch) -> None:
        self._permit()
        self._clean.discard(launch.run_id)
        super().launch(launch)

    def resize(self, run_id: str, workers: tuple[Worker, ...], generation: int) -> None:
        self._permit()
        super().resize(run_id, workers, generation)

    def suspend(self, run_id: str) -> None:
        self._permit()
        super().suspend(run_id)

    def stop(self, run_id: str, grace_s: float) -> None:
        self._permit()
        super().stop(run_id, grace_s)

    def end_parts(self, run_id: str) -> bool:
        """Whether a run whose agent is dead has nothing left in the cluster; once that is known it is not asked."""
        if run_id not in self._clean:
            owner = RunOwner(installation=self._installation, run_id=run_id, namespace=self._settings.namespace)
            try:
                self._permit()
                if remove_run(self._api, owner):
                    self._clean.add(run_id)
            except BackendError as error:
                _log.warning("what run %s has left in the cluster cannot be removed now: %s", run_id, error)
        return run_id in self._clean

    def _require_nodes(self) -> None:
        if not self.nodes():
            raise InputError(
                f"no node of {self._api.host} has devices that Penstock knows", "nodes with GPUs or NPUs, or CPU slots",
                "Check node_selector and the device plugin, or set cpu_slot_cores to use processors",
            )  # fmt: skip

    def _remove_leftovers(self) -> None:
        """Of runs that nobody looks after any more, because their directories are gone or their agents; a Secret that
        is deleted takes its pods with it."""
        base = f"/api/v1/namespaces/{self._settings.namespace}"
        chosen = {"labelSelector": f"{MANAGED_BY}={PENSTOCK},{INSTALLATION}={self._installation}"}
        living = {run.run_id for run in self.runs() if run.alive}
        for page in self._api.pages(f"{base}/secrets", chosen):
            for one in page["items"]:
                run_id = (one["metadata"].get("annotations") or {}).get(RUN_ID, "")
                if run_id and run_id not in living:
                    _log.info("removing what run %s has left in the cluster", run_id)
                    self._api.delete(f"{base}/secrets/{one['metadata']['name']}")


def _with_kubeconfig(settings: KubernetesSettings) -> KubernetesSettings:
    """Agents are not given the server's environment, so what that says of a kubeconfig is said to them."""
    return settings if settings.kubeconfig else replace(settings, kubeconfig=os.environ.get("KUBECONFIG", ""))


def _installation(state_dir: Path) -> str:
    """A name that keeps this platform's pods apart from those of another one in the same cluster."""
    file = state_dir / "installation"
    if not file.exists():
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(file, random.token_hex(4), durable=True)
    return file.read_text().strip()


def _address_towards(url: str) -> str:
    """The address of this machine on the way to the cluster, which is how pods reach it."""
    parts = urlsplit(url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((parts.hostname or "127.0.0.1", parts.port or 443))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
