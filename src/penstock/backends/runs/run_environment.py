"""What a command finds around it that somebody runs beside the workers of a run: their directory, variables and user.

Ranks are left out, for there is one of each already, and so are secrets, which are for the workers alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.agent.environment import VISIBILITY, base_environment
from penstock.backends.runs.rundir import RunDir
from penstock.core import Worker
from penstock.tools import UnixUser


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnvironment:
    """Where and as whom to start something. No ``user`` means the server's own."""

    variables: Mapping[str, str]
    directory: Path
    user: UnixUser | None = None


def run_environment(run_dir: RunDir, inherited: Mapping[str, str], user: UnixUser | None) -> RunEnvironment | None:
    """That of a run whose workers are processes of this machine; nothing if it has ended or lives in a container."""
    launch = run_dir.read_launch()
    if launch is None or not run_dir.is_alive() or launch.container is not None:
        return None
    variables = base_environment(inherited, launch, run_dir.paths) | _devices(launch.workers)
    variables |= user.variables if user is not None else {}
    return RunEnvironment(variables=variables, directory=Path(launch.working_dir), user=user)


def _devices(workers: Sequence[Worker]) -> dict[str, str]:
    """All devices of the run, for whoever looks at variables to find them."""
    found: dict[str, str] = {}
    for variables in (dict(worker.device_env) for worker in workers):
        for name, value in variables.items():
            found[name] = f"{found[name]},{value}" if name in VISIBILITY and name in found else value
    return found
