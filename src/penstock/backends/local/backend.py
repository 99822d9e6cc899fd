"""Runs as processes of this machine."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from penstock.backends.agent.ownership import own_directory
from penstock.backends.agent.secrets import Mask
from penstock.backends.environments.environment_process import (
    LIMIT_S,
    BuiltEnvironment,
    EnvironmentProcess,
    EnvironmentRequest,
)
from penstock.backends.environments.preparation_log import preparation_log
from penstock.backends.local.devices import Inventory, discover
from penstock.backends.runs.backend import (
    AgentBackend,
    AgentSettings,
    SecretValues,
    clear_disk_errors,
    no_secrets,
    passable_directory,
    recipe_with_interpreter,
)
from penstock.backends.runs.run_environment import RunEnvironment, run_environment
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
        """A virtual environment, a conda environment or an image, made ready once for each content."""
        if not recipe.prepared_parts:
            return recipe_with_interpreter(recipe, sys.executable)
        tell(_preparation(recipe))
        built = self._built(recipe)
        around = built.variables({**os.environ, **dict(recipe.env)})
        return replace(
            recipe_with_interpreter(recipe, built.python), container=built.container,
            env=tuple(sorted({**dict(recipe.env), **around}.items())),
        )  # fmt: skip

    def run_environment(self, run_id: str) -> RunEnvironment | None:
        """Where a command may be run beside the workers of a run, if it lives and is in no container."""
        launch = (run_dir := self._known(run_id)).read_launch()
        user = None if launch is None else self.users.of(launch.tenant)
        return run_environment(run_dir, self.environment_of_jobs(), user)

    def _built(self, recipe: Recipe) -> BuiltEnvironment:
        """An environment of the tenant's own: what one user has built is not for others to start."""
        user = self.users.of(recipe.tenant)
        cache_dir = self._environments / user.name if user else self._environments
        own_directory(cache_dir, user)
        secrets = self.secret_variables(recipe) if recipe.setup else {}
        with preparation_log(recipe.preparation_log, Mask(secrets.values())) as output:
            process = EnvironmentProcess(
                cache_dir=cache_dir, environ=self.environment_of_jobs(), user=user, limit_s=self._preparation_limit_s,
                output=output,
            )  # fmt: skip
            return process.build(_request(recipe, secrets))


def _request(recipe: Recipe, secrets: Mapping[str, str]) -> EnvironmentRequest:
    return EnvironmentRequest(
        base=recipe.working_dir, requirements=recipe.requirements, requirements_file=recipe.requirements_file,
        conda=recipe.conda, setup=recipe.setup, container=recipe.container,
        variables=tuple(sorted({**dict(recipe.env), **secrets}.items())),
    )  # fmt: skip


def _preparation(recipe: Recipe) -> str:
    """What is being done, in the words of the job file."""
    named = recipe.requirements_file or ", ".join(recipe.requirements)
    kinds = {"installing": named, "using the conda environment": recipe.conda}
    doing = [f"{verb} {what[:200]}" for verb, what in kinds.items() if what]
    doing += [f"getting the image {recipe.container.image}"] if recipe.container else []
    return " and ".join(doing + (["running its setup commands"] if recipe.setup else []))
