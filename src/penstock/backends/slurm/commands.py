"""Slurm's commands, called with a limit, and what their failures mean."""

import asyncio
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.base import BackendError
from penstock.core import InputError

LIMIT_S = 20.0
_PASSING = (
    "unable to contact slurm controller", "socket timed out", "connection refused", "slurm_persist_conn", "try again",
    "controller not responding", "zero bytes were transmitted", "unexpected message", "resource temporarily",
)  # fmt: skip
"""Words of failures that say nothing about what was asked."""


class SlurmError(BackendError):
    """A command of Slurm's has failed; ``passing`` where the controller was away, and may answer differently soon."""

    def __init__(self, message: str, passing: bool) -> None:
        super().__init__(message)
        self.passing = passing


@dataclass(frozen=True, slots=True)
class SlurmCommands:
    """Where the commands are: a directory, or the path if there is none."""

    directory: str = ""

    def check(self) -> None:
        """Refuse to begin without them."""
        for name in ("sbatch", "squeue", "scancel", "scontrol"):
            if shutil.which(self._program(name)) is None:
                raise InputError(
                    f"{name} is not installed here", "a machine with Slurm's client commands",
                    "Install slurm-client, or give their directory as commands",
                )  # fmt: skip

    def run(self, name: str, *arguments: str) -> str:
        """What a command prints; waits for it."""
        try:
            done = subprocess.run(
                [self._program(name), *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise SlurmError(f"{name} has not ended within {LIMIT_S:g} s", passing=True) from None
        return _answer(name, done.returncode, done.stdout, done.stderr)

    async def call(self, name: str, *arguments: str, text: str = "") -> str:
        """The same without waiting here; ``text`` is its standard input."""
        process = await asyncio.create_subprocess_exec(
            self._program(name), *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(text.encode()), LIMIT_S)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise SlurmError(f"{name} has not ended within {LIMIT_S:g} s", passing=True) from None
        return _answer(name, process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))

    def _program(self, name: str) -> str:
        return str(Path(self.directory) / name) if self.directory else name


def _answer(name: str, code: int, out: str, err: str) -> str:
    if code == 0:
        return out
    words = " ".join(line.partition("error: ")[2] or line for line in err.strip().splitlines())
    passing = any(mark in words.lower() for mark in _PASSING)
    raise SlurmError(f"{name}: {words or f'exit code {code}'}", passing=passing)
