"""The setup script of a job: run once for its content, in the environment that was made ready for it."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.environments.tool_runs import run_tool
from penstock.tools import file_lock

SHELL = ("/bin/sh", "-exc")
"""Stops at the first command that fails, and says each one before it is run."""
HINT = "Correct environment.setup; penstock logs shows all it said"


def key_of(parts: Sequence[str]) -> str:
    """What a thing is called that was made of these texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class SetupScript:
    """Lines for a shell in ``directory``, with ``variables`` of the job around them."""

    text: str
    directory: Path
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def content(self) -> tuple[str, ...]:
        """What decides what comes of it; the same again is not run again."""
        return ("setup", self.text, str(self.directory))

    def run(self, around: Mapping[str, str]) -> None:
        """Run it with the variables of an environment; raises ``PreparationError`` when a command in it fails."""
        env = {**os.environ, **dict(self.variables), **around}
        run_tool([*SHELL, self.text], self.directory, "the setup commands failed", HINT, env)

    def run_once(self, marks: Path, environment: str, around: Mapping[str, str]) -> None:
        """Run it in an environment that belongs to somebody else, unless ``marks`` says that it has been."""
        mark = marks / key_of((environment, *self.content))
        if mark.exists():
            return
        marks.mkdir(parents=True, exist_ok=True)
        with file_lock(mark.with_suffix(".lock")):
            if not mark.exists():
                self.run(around)
                mark.touch()
