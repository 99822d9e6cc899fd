"""Images for jobs in containers: which runtime there is, an image that it has, and one in which a setup script was run.

An image is pulled when the runtime does not have it. A setup script is run in a container of it, as the image's own
user, and what it leaves is kept as an image of its own, named after what went into it.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.agent.containers import DAEMONLESS, DAEMONS
from penstock.backends.base import PreparationError
from penstock.backends.environments.setup_script import HINT, SHELL, SetupScript, key_of
from penstock.backends.environments.tool_runs import heard, run_tool

_SET_UP = "penstock-set-up"


def find_runtime(env: Mapping[str, str], names: Sequence[str] = (*DAEMONS, *DAEMONLESS)) -> str:
    """The first runtime of these that answers; a client without its daemon is none."""
    silent = []
    for program in _programs(env, names):
        code, said = heard([program, "info" if Path(program).name in DAEMONS else "--version"], Path("/"))
        if code == 0:
            return program
        silent.append(f"{Path(program).name}: {' '.join(said[-1:])}")
    raise PreparationError(
        "the job asks for a container, and no runtime for containers "
        + (f"answers on this machine ({'; '.join(silent)})" if silent else "is installed on this machine"),
        f"{', '.join(names[:-1])} or {names[-1]} on the server's PATH",
        "Install one, or use environment.requirements or environment.conda", tail=tuple(silent),
    )  # fmt: skip


def _programs(env: Mapping[str, str], names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if program := shutil.which(name, path=env.get("PATH")):
            yield program


@dataclass(frozen=True, slots=True)
class ContainerImages:
    """Images of ``runtime``; those it keeps as files lie below ``cache_dir``."""

    runtime: str
    cache_dir: Path

    def ready(self, image: str, setup: SetupScript | None = None) -> str:
        """The image that workers are started from."""
        if Path(self.runtime).name in DAEMONLESS:
            return self._file(image, setup)
        if not self._has(image):
            run_tool([self.runtime, "pull", image], Path("/"), f"the image {image} could not be pulled", _CORRECT)
        return image if setup is None else self._set_up(image, setup)

    def _has(self, image: str) -> bool:
        return heard([self.runtime, "image", "inspect", "--format", "{{.Id}}", image], Path("/"))[0] == 0

    def _file(self, image: str, setup: SetupScript | None) -> str:
        if setup is not None:
            raise PreparationError(
                f"setup commands in an image of {Path(self.runtime).name}", "setup with docker or podman",
                "Build an image in which they have been run",
            )  # fmt: skip
        if image.startswith("/"):
            return image
        file = self.cache_dir / f"image-{key_of((image,))}.sif"
        if not file.exists():
            self.cache_dir.mkdir(parents=True, exist_ok=True)
            pulled = file.with_name(f"{file.name}.{os.getpid()}")
            source = image if "://" in image else f"docker://{image}"
            run_tool([self.runtime, "pull", str(pulled), source], Path("/"), f"{image} could not be pulled", _CORRECT)
            pulled.rename(file)
        return str(file)

    def _set_up(self, image: str, setup: SetupScript) -> str:
        name = f"{_SET_UP}:{key_of((image, *setup.content))}"
        if self._has(name):
            return name
        container = f"{_SET_UP}-{os.getpid()}"
        where = str(setup.directory)
        words = [word for variable, _ in setup.variables for word in ("--env", variable)]
        begin = [self.runtime, "run", "--name", container, "--network=host", "--volume", f"{where}:{where}"]
        try:
            run_tool(
                [*begin, "--workdir", where, *words, image, *SHELL, setup.text], Path("/"),
                "the setup commands failed", HINT, dict(setup.variables),
            )  # fmt: skip
            run_tool([self.runtime, "commit", container, name], Path("/"), "what setup left could not be kept", HINT)
        finally:
            heard([self.runtime, "rm", "--force", container], Path("/"))
        return name


_CORRECT = "Correct environment.image, or log in to its registry"
