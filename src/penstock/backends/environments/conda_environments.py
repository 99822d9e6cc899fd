"""Conda environments for jobs: those that are there, by name or directory, and those that a file describes.

Which program of the family there is does not matter (conda, mamba, micromamba). An environment of a file is built once
for the file's content, in its final place, because conda writes that into what it installs. What an environment sets
when it is activated is asked of conda itself and given to every worker.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from penstock.backends.base import PreparationError
from penstock.backends.environments.python_environments import PythonEnvironment
from penstock.backends.environments.setup_script import SetupScript, key_of
from penstock.backends.environments.tool_runs import run_tool
from penstock.tools import file_lock

PROGRAMS = ("conda", "mamba", "micromamba")
_BUILT = "penstock-built"
_ASK = (
    "import json, os, sys; "
    "print('penstock:' + json.dumps([sys.executable, sys.prefix, dict(os.environ)]))"
)  # fmt: skip
_SECONDS = 300.0
_NOT_ITS_OWN = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "PYTHONPATH"})


def find_conda(env: Mapping[str, str]) -> str:
    """The program of the conda family that there is."""
    found = (shutil.which(name, path=env.get("PATH")) for name in PROGRAMS)
    if program := next(filter(None, found), None):
        return program
    raise PreparationError(
        "the job asks for a conda environment, and conda is not installed on this machine",
        "requirements or an image; conda where PATH has conda, mamba or micromamba",
        "Install conda, or use environment.requirements",
    )


class CondaEnvironments:
    """Finds and builds environments with ``program``; what it builds lies below ``cache_dir``."""

    def __init__(self, program: str, cache_dir: Path) -> None:
        self.program = program
        self.cache_dir = cache_dir.absolute()

    def build(self, wanted: str, setup: SetupScript | None = None) -> PythonEnvironment:
        """The environment of a name, a directory or a file, with its setup script run in it once."""
        if wanted.endswith((".yml", ".yaml")):
            chosen = ("-p", str(self._built(Path(wanted))))
        else:
            chosen = ("-p" if "/" in wanted else "-n", wanted)
        environment = self._activated(chosen, wanted)
        if setup is not None:
            setup.run_once(self.cache_dir / "set-up", str(environment.prefix), environment.variables(os.environ))
        return environment

    def _built(self, file: Path) -> Path:
        try:
            content = file.read_text()
        except (OSError, ValueError) as problem:
            raise PreparationError(f"{file} cannot be read: {problem}", "an environment file of conda") from None
        place = self.cache_dir / f"conda-{key_of((self.program, content))}"
        with file_lock(place.with_suffix(".lock")):
            if not (place / _BUILT).exists():
                shutil.rmtree(place, ignore_errors=True)
                self._create(place, file)
                (place / _BUILT).touch()
        return place

    def _create(self, place: Path, file: Path) -> None:
        verb = ("create",) if Path(self.program).name.startswith("micromamba") else ("env", "create")
        run_tool(
            [self.program, *verb, "-y", "-p", str(place), "-f", str(file)], file.parent,
            "the conda environment could not be built", f"Correct {file.name}",
        )  # fmt: skip

    def _activated(self, chosen: tuple[str, str], wanted: str) -> PythonEnvironment:
        """Ask its own Python where it is, and what activating has changed."""
        done = subprocess.run(
            [self.program, "run", *chosen, "python", "-c", _ASK], check=False, capture_output=True, text=True,
            errors="replace", stdin=subprocess.DEVNULL, timeout=_SECONDS,
        )  # fmt: skip
        told = next((line for line in done.stdout.splitlines() if line.startswith("penstock:")), None)
        if done.returncode != 0 or told is None:
            tail = tuple(done.stderr.strip().splitlines()[-3:])
            raise PreparationError(
                f"the conda environment {wanted} cannot be used: {' '.join(tail) or 'it has no Python'}",
                "an environment of conda env list that has Python", "Correct environment.conda", tail=tail,
            )  # fmt: skip
        python, prefix, around = json.loads(told.removeprefix("penstock:"))
        changed = {
            name: value for name, value in around.items() if os.environ.get(name) != value and name not in _NOT_ITS_OWN
        }
        return PythonEnvironment(python, Path(prefix), tuple(sorted(changed.items())))
