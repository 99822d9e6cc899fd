"""The backend on a Slurm cluster: nodes from Slurm, agents beside the server, workers in batch jobs."""

import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from penstock.backends.agent.containers import DAEMONLESS
from penstock.backends.agent.line_certificate import line_keeper
from penstock.backends.agent.ownership import own_directory
from penstock.backends.agent.parts import PartEngine
from penstock.backends.agent.secrets import Mask
from penstock.backends.environments.cached_command import PREPARED, cached_commands
from penstock.backends.environments.environment_process import EnvironmentProcess, EnvironmentRequest
from penstock.backends.environments.preparation_log import preparation_log
from penstock.backends.runs.backend import (
    AgentBackend,
    AgentSettings,
    SecretValues,
    no_secrets,
    recipe_with_interpreter,
)
from penstock.backends.runs.tenant_users import SERVERS_OWN, TenantUsers
from penstock.backends.slurm.commands import SlurmCommands
from penstock.backends.slurm.node_requests import NodeRequests
from penstock.backends.slurm.queue import BatchQueue, queue_file
from penstock.backends.slurm.settings import SlurmSettings
from penstock.backends.slurm.watch import ClusterWatch
from penstock.core import AgentAddress, ClusterError, Container, DeviceSlot, Launch, Node, Recipe
from penstock.tools import SteadyClock

PARTS = "penstock.backends.slurm.parts:SlurmParts"


class SlurmBackend(AgentBackend):
    """The :class:`~penstock.backends.base.Backend` of one partition.

    ``state_dir`` must lie on a file system that all nodes mount at the same path, and so must the Python that the
    server runs with. A Slurm that does not answer for a while changes nothing: what is known stays known.
    """

    name = "slurm"

    def __init__(
        self,
        state_dir: Path | str,
        settings: SlurmSettings,
        *,
        users: TenantUsers = SERVERS_OWN,
        pass_environment: Sequence[str] = (),
        secret_values: SecretValues = no_secrets,
        clock: SteadyClock | None = None,
    ) -> None:
        self._settings = settings
        self._commands = SlurmCommands(settings.commands)
        self._commands.check()
        listen = AgentAddress(host=settings.host or own_address())
        given = {**asdict(settings), "state_dir": str(Path(state_dir).expanduser().resolve())}
        engine = PartEngine(factory=PARTS, settings=given, start_limit_s=settings.start_limit_s)
        agents = AgentSettings(
            listen=listen, engine=engine, pass_environment=("SLURM_CONF", *pass_environment),
            certificate_of=line_keeper(Path(state_dir)) if settings.encrypt else None,
        )  # fmt: skip
        super().__init__(state_dir, agents, users=users, secret_values=secret_values, clock=clock)
        queue = BatchQueue(queue_file(self.state_dir), self._commands, settings.partition)
        self._watch = ClusterWatch(settings, self._commands, queue, NodeRequests(self.state_dir))
        self._watch.begin()
        if not self._watch.view.nodes:
            raise ClusterError(
                f"partition {settings.partition!r} has no nodes", "a partition with nodes", "Try: sinfo --Node"
            )

    @property
    def promises(self) -> bool:
        """Whether a granted device is there at once; for a guest, when it is there is for Slurm's queue to say."""
        return self._settings.owner

    def nodes(self) -> tuple[Node, ...]:
        return tuple(node.node for node in self._watch.view.nodes)

    def unusable(self) -> Mapping[DeviceSlot, str]:
        """Every device of a node in trouble, and those that batch jobs of others hold, with Slurm's own words."""
        return self._watch.view.unusable

    def prepare(self, recipe: Recipe, tell: Callable[[str], None]) -> Recipe:
        """The server's own Python, which the nodes have at the same path, with what the first worker makes ready; or an
        image, as a file beside the data directory."""
        if recipe.container is not None:
            tell(f"getting the image {recipe.container.image}")
            return replace(recipe_with_interpreter(recipe, "python"), container=self._image_of(recipe))
        if PREPARED.intersection(recipe.prepared_parts):
            return cached_commands(recipe, sys.executable, str(self._cache_of(recipe.tenant)))
        return recipe_with_interpreter(recipe, sys.executable)

    def _image_of(self, recipe: Recipe) -> Container | None:
        """A file that all nodes see, and the runtime without a daemon that starts it there as an ordinary user."""
        request = EnvironmentRequest(
            base=recipe.working_dir, container=recipe.container, setup=recipe.setup, runtimes=DAEMONLESS
        )
        with preparation_log(recipe.preparation_log, Mask(())) as output:
            process = EnvironmentProcess(
                cache_dir=self._cache_of(recipe.tenant), environ=self.environment_of_jobs(),
                user=self.users.of(recipe.tenant), output=output,
            )  # fmt: skip
            return process.build(request).container

    def _cache_of(self, tenant: str) -> Path:
        """Of the tenant's own: what one user has built is not for others to start."""
        user = self.users.of(tenant)
        place = self.state_dir / "environments" / (user.name if user else "")
        own_directory(place, user)
        return place

    def device_environment(self, place: DeviceSlot) -> Sequence[tuple[str, str]]:
        """Slurm confines workers to their devices; libraries only learn how many cores they have."""
        node = next((node for node in self._watch.view.nodes if node.name == place.node), None)
        if node is None or place.slot >= node.count:
            raise ClusterError(
                f"device {place}", "a device of a node in the partition", "Ask the backend for its nodes"
            )
        return (("OMP_NUM_THREADS", str(node.cpus)),)

    def end_parts(self, run_id: str) -> bool:
        return self._watch.end_jobs(run_id)

    def launch(self, launch: Launch) -> None:
        super().launch(launch)
        if self._directory(launch.run_id).is_alive():  # else it had ended before, and nothing of it came back
            self._watch.forget(launch.run_id)

    def forget(self, run_id: str) -> None:
        super().forget(run_id)
        self._watch.forget(run_id)


def own_address() -> str:
    """An address of this machine that others reach: the one of its name, unless that is the loopback."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
