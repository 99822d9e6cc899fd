"""What a command finds around it that somebody runs beside the workers of a run: their directory, variables and user.

Ranks are left out, for there is one of each already, and so are secrets, which are for the workers alone.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.backends.agent.environment import VISIBILITY, base_environment
from penstock.backends.runs.rundir import RunDir
from penstock.core import Worker
from penstock.tools import UnixUser

_PROGRAM = "penstock.backends.agent.side_command"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnvironment:
    """Where and as whom to start something. No ``user`` means the server's own.

    ``agent`` is the process whose end is the end of the run in ``run_directory``, where there is one.
    """

    variables: Mapping[str, str]
    directory: Path
    user: UnixUser | None = None
    run_directory: Path | None = None
    agent: int = 0

    def side_command(self, words: Sequence[str], *, terminal: bool) -> tuple[list[str], bytes]:
        """The program that starts a command here and ends it, and what it wants to read first.

        It says on its errors what went wrong, and closes them once the command runs; a terminal is given to it as its
        output. The command ends when its input does.
        """
        order = {
            "words": list(words), "variables": dict(self.variables), "directory": str(self.directory),
            "user": None if self.user is None else asdict(self.user), "agent": self.agent, "terminal": terminal,
            "run_directory": None if self.run_directory is None else str(self.run_directory),
        }  # fmt: skip
        return [sys.executable, "-P", "-m", _PROGRAM], json.dumps(order).encode() + b"\n"


def run_environment(run_dir: RunDir, inherited: Mapping[str, str], user: UnixUser | None) -> RunEnvironment | None:
    """That of a run whose workers are processes of this machine; nothing if it has ended or lives in a container."""
    launch, agent = run_dir.read_launch(), run_dir.read_agent()
    if launch is None or agent is None or not run_dir.is_alive() or launch.container is not None:
        return None
    variables = base_environment(inherited, launch, run_dir.paths) | _devices(launch.workers)
    variables |= user.variables if user is not None else {}
    return RunEnvironment(
        variables=variables, directory=Path(launch.working_dir), user=user, run_directory=run_dir.path,
        agent=int(agent["pid"]),
    )  # fmt: skip


def _devices(workers: Sequence[Worker]) -> dict[str, str]:
    """All devices of the run, for whoever looks at variables to find them."""
    found: dict[str, str] = {}
    for variables in (dict(worker.device_env) for worker in workers):
        for name, value in variables.items():
            found[name] = f"{found[name]},{value}" if name in VISIBILITY and name in found else value
    return found
