"""Workers in containers: the command line that starts one, and the end of one whose command line was killed.

The runtime's own client is the worker's process: it passes signals on and ends with the worker's exit code. Where a
daemon keeps the container (docker, podman), killing the client leaves it running, so it is removed by its name, and
after the death of an agent by the label of the run. The container sees the job's directories under their own paths, the
machine's network, the devices of the worker, and of the environment what is not the machine's own.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.core import AgentAddress, Container, Launch, Mount, ResourceLimits, is_url
from penstock.tools import UnixUser

DAEMONS = ("docker", "podman")
DAEMONLESS = ("apptainer", "singularity")
LABEL = "penstock.run"
_REMOVAL_S = 30.0
_MACHINES_OWN = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TMP", "TEMP", "PYTHONPATH", "PYTHONPYCACHEPREFIX",
    "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
})  # fmt: skip
"""Variables that name places of the machine; a container has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLaunch:
    """How the workers of one run are started in containers."""

    run_id: str
    container: Container
    working_dir: str
    limits: ResourceLimits
    own_variables: frozenset[str]
    user: UnixUser | None = None

    @classmethod
    def of(cls, launch: Launch, user: UnixUser | None) -> "ContainerLaunch | None":
        """None for a run without a container, or in an engine that starts containers itself."""
        if launch.container is None or not launch.container.runtime:
            return None
        return cls(
            run_id=launch.run_id, container=launch.container, working_dir=launch.working_dir, limits=launch.limits,
            own_variables=frozenset(name for name, _ in launch.env), user=user,
        )  # fmt: skip

    def command(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """The words that start a worker, and the environment of whoever starts it; values are in no word."""
        passed = {key: env[key] for key in sorted(env) if key not in _MACHINES_OWN or key in self.own_variables}
        mounts = list(self._mounts(env))
        if self._program in DAEMONLESS:
            return self._daemonless(command, mounts, passed, env)
        argv = [self.container.runtime, "run", "--rm", "--init", "--name", name, "--label", f"{LABEL}={self.run_id}"]
        argv += [
            "--network=host",
            "--ipc=host",
            "--security-opt=no-new-privileges",
            *self._identity(),
            *self._devices(env),
            *self._bounds(),
        ]
        argv += ["--workdir", self.working_dir, *(word for mount in mounts for word in ("--volume", str(mount)))]
        argv += [word for key in passed for word in ("--env", key)]
        return [*argv, self.container.image, *command], dict(env)

    @property
    def limits_itself(self) -> bool:
        """Whether its processes are children of a daemon, out of reach of a group of ours."""
        return self._program in DAEMONS

    def remove(self, name: str) -> None:
        """End a container whose client is gone; one that has ended is gone already."""
        if self._program in DAEMONS:
            _quietly([self.container.runtime, "rm", "--force", name])

    @property
    def _program(self) -> str:
        return Path(self.container.runtime).name

    def _daemonless(
        self, command: Sequence[str], mounts: Sequence[Mount], passed: Mapping[str, str], env: Mapping[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        binds = [word for mount in mounts for word in ("--bind", str(mount))]
        gpus = ["--nv"] if env.get("CUDA_VISIBLE_DEVICES") else []
        argv = [self.container.runtime, "exec", "--cleanenv", *gpus, "--pwd", self.working_dir, *binds]
        prefix = f"{self._program.upper()}ENV_"
        return [*argv, self.container.image, *command], {**env, **{prefix + key: passed[key] for key in passed}}

    def _mounts(self, env: Mapping[str, str]) -> Iterator[Mount]:
        """The job's directories under their own paths, then what the job file names; the file's own word counts."""
        asked = {mount.target for mount in self.container.mounts}
        for place in dict.fromkeys(self._places(env)):
            if place not in asked:
                yield Mount(source=place, target=place)
        yield from self.container.mounts

    def _places(self, env: Mapping[str, str]) -> Iterator[str]:
        yield self.working_dir
        if run_dir := env.get("PENSTOCK_RUN_DIR"):
            yield run_dir
        if (checkpoints := env.get("PENSTOCK_CHECKPOINT_DIR")) and not is_url(checkpoints):
            yield checkpoints
        if (agent := env.get("PENSTOCK_AGENT")) and (path := AgentAddress.parse(agent).path):
            yield str(Path(path).parent)

    def _identity(self) -> list[str]:
        """Whose files the container writes: the job's user's."""
        uid, gid = (self.user.uid, self.user.gid) if self.user else (os.getuid(), os.getgid())
        return ["--userns=keep-id"] if self._program == "podman" and uid else ["--user", f"{uid}:{gid}"]

    def _devices(self, env: Mapping[str, str]) -> list[str]:
        gpus = [name for name in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        if self._program == "podman":
            return [word for name in gpus for word in ("--device", f"nvidia.com/gpu={name}")]
        return ["--gpus", f'"device={",".join(gpus)}"'] if gpus else []

    def _bounds(self) -> list[str]:
        """A container is one worker on one device, which is what limits are meant for."""
        memory = [f"--memory={self.limits.memory_bytes}b"] if self.limits.memory_bytes is not None else []
        return memory + ([f"--cpus={self.limits.cpus:g}"] if self.limits.cpus is not None else [])


def remove_run(runtime: str, run_id: str) -> None:
    """End whatever containers a run has left."""
    if Path(runtime).name not in DAEMONS:
        return
    found = _quietly([runtime, "ps", "--all", "--quiet", "--filter", f"label={LABEL}={run_id}"])
    if names := found.split():
        _quietly([runtime, "rm", "--force", *names])


def _quietly(command: Sequence[str]) -> str:
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
            timeout=_REMOVAL_S,
        )  # fmt: skip
        return done.stdout
    return ""
