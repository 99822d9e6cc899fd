"""Programs that make environments ready (pip, uv, conda, a container's runtime, setup scripts), run and heard out.

What they say goes line by line to standard error, from where it reaches the job's log; the last lines are kept for the
sentence that says why the job could not be prepared.
"""

import os
import shlex
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.backends.base import PreparationError

SHOWN_LINES = 12


def run_tool(
    command: Sequence[str],
    directory: Path,
    failure: str,
    hint: str = "Correct environment.requirements",
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a program to its end; raises :class:`PreparationError` with its last words if it fails."""
    code, tail = heard(command, directory, env)
    if code != 0:
        told = "\n  ".join(tail)
        raise PreparationError(f"{failure}; the last lines were:\n  {told}\n", "", hint, tail=tail)


def heard(command: Sequence[str], directory: Path, env: Mapping[str, str] | None = None) -> tuple[int, tuple[str, ...]]:
    """The exit code of a program and the last lines it said."""
    _echo(f"$ {shlex.join(command)}\n".encode())
    around = {**os.environ, "PIP_USER": "0", "PYTHONNOUSERSITE": "1", **(env or {})}
    try:
        program = subprocess.Popen(
            command, cwd=directory, env=around, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    except OSError as problem:
        return 127, (f"{command[0]}: {problem.strerror}",)
    tail: deque[str] = deque(maxlen=SHOWN_LINES)
    with program:
        for line in program.stdout or ():
            _echo(line)
            if line.strip():
                tail.append(line.decode(errors="replace").rstrip())
    return program.returncode, tuple(tail)


def _echo(line: bytes) -> None:
    sys.stderr.buffer.write(line)
    sys.stderr.buffer.flush()
