"""Runs as processes of this machine."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from penstock.backends.agent.ownership import own_directory
from penstock.backends.base import PreparationError
from penstock.backends.local.devices import Inventory, discover
from penstock.backends.local.environment_process import LIMIT_S, EnvironmentProcess
from penstock.backends.local.python_environments import PythonEnvironment
from penstock.backends.runs.backend import (
    AgentBackend,
    AgentSettings,
    SecretValues,
    clear_disk_errors,
    no_secrets,
    passable_directory,
    with_interpreter,
)
from penstock.backends.runs.tenant_users import SERVERS_OWN, TenantUsers
from penstock.core import AgentAddress, DeviceSlot, Node, Recipe
from penstock.tools import SteadyClock


class LocalBackend(AgentBackend):
    """The :class:`~penstock.backends.base.Backend` of this machine; what its agents share with others is above it.

    ``listen`` gives workers an address of their agent instead of a socket in the run's directory. ``users`` says as
    whom the jobs of a tenant run. ``pass_environment`` adds to the variables that jobs inherit.
    """

    name = "local"

    def __init__(
        self,
        state_dir: Path | str,
        nodes: Inventory | None = None,
        *,
        listen: AgentAddress | None = None,
        users: TenantUsers = SERVERS_OWN,
        pass_environment: Sequence[str] = (),
        preparation_limit_s: float = LIMIT_S,
        secret_values: SecretValues = no_secrets,
        clock: SteadyClock | None = None,
    ) -> None:
        agents = AgentSettings(listen=listen, pass_environment=tuple(pass_environment))
        super().__init__(state_dir, agents, users=users, secret_values=secret_values, clock=clock)
        self._environments = self.state_dir / "environments"
        self._preparation_limit_s = preparation_limit_s
        self._inventory = nodes or discover()
        if users.any:
            with clear_disk_errors(self._environments):
                passable_directory(self._environments, users)

    def nodes(self) -> tuple[Node, ...]:
        return self._inventory.nodes

    def unusable(self) -> Mapping[DeviceSlot, str]:
        """None: devices are looked for once, when the server starts, and a broken one is not found."""
        return {}

    def device_environment(self, place: DeviceSlot) -> Sequence[tuple[str, str]]:
        return self._inventory.env_of(place)

    def prepare(self, recipe: Recipe, tell: Callable[[str], None]) -> Recipe:
        """A virtual environment with the job's packages, built once for each set of them."""
        packages = recipe.requirements_file or recipe.requirements
        if missing := [part for part in recipe.prepared_parts if part != "requirements"]:
            raise PreparationError(f"{' and '.join(missing)} on this machine", "requirements", "Leave it out")
        if packages:
            named = packages if isinstance(packages, str) else ", ".join(packages)
            tell(f"installing {named[:200]}")
        built = self._built(packages, recipe) if packages else PythonEnvironment(sys.executable)
        around = built.variables({**os.environ, **dict(recipe.env)}) if built.prefix else {}
        return replace(
            recipe, command=with_interpreter(recipe.command, built.python),
            env=tuple(sorted({**dict(recipe.env), **around}.items())),
        )  # fmt: skip

    def _built(self, packages: str | tuple[str, ...], recipe: Recipe) -> PythonEnvironment:
        """An environment of the tenant's own: what one user has built is not for others to start."""
        user = self.users.of(recipe.tenant)
        cache_dir = self._environments / user.name if user else self._environments
        own_directory(cache_dir, user)
        process = EnvironmentProcess(
            cache_dir=cache_dir, environ=self.environment_of_jobs(), user=user, limit_s=self._preparation_limit_s
        )  # fmt: skip
        return process.build(packages, Path(recipe.working_dir))
