"""Environments are built in a process of their own: as the job's user, within a time limit, and never left behind.

What a package does while it is installed is its author's: it runs code, takes hours or hangs. So the server starts this
module as the job's user, hands it one request and waits in a thread of its own. The kernel tells the process when the
server is gone, and it ends with everything it started; so it does when its time is over.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.backends.agent.processes import become_subreaper, kill_below
from penstock.backends.base import PreparationError
from penstock.backends.local.python_environments import EnvironmentBuilder, PythonEnvironment
from penstock.core import InputError
from penstock.tools import UnixUser, die_with_parent, may_execute, process_options

LIMIT_S = 1800.0
"""How long an environment may take to be built."""
_LEAVE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentProcess:
    """Builds environments below ``cache_dir`` as ``user``, with ``environ`` around pip."""

    cache_dir: Path
    environ: Mapping[str, str]
    user: UnixUser | None = None
    limit_s: float = LIMIT_S

    def build(self, requirements: str | Sequence[str], base: Path) -> PythonEnvironment:
        """The environment, when it is ready; raises :class:`~penstock.core.InputError` for what cannot be."""
        if self.user is not None and not may_execute(self.user, sys.executable):
            raise PreparationError(
                f"the user {self.user.name} cannot start {sys.executable}", "a Python that every user may start",
                "Ask whoever runs the server to install it in a directory that everybody can enter",
            )  # fmt: skip
        request = json.dumps({"requirements": requirements, "base": str(base), "cache_dir": str(self.cache_dir)})
        argv = [sys.executable, "-P", "-m", __name__, str(os.getpid())]
        child = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            env={**self.environ, **(self.user.variables if self.user else {})}, cwd="/", start_new_session=True,
            **process_options(self.user),
        )  # fmt: skip
        try:
            answer, said = child.communicate(request, timeout=self.limit_s)
        except subprocess.TimeoutExpired:
            _end(child)
            raise PreparationError(
                f"the requirements were not installed within {self.limit_s:g} s", "", "Correct environment.requirements"
            ) from None
        return _read(answer, said)


def _end(child: "subprocess.Popen[str]") -> None:
    """Ask it to take everything below it along; a process that does not is killed with its group."""
    child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.communicate(timeout=_LEAVE_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def _read(answer: str, said: str) -> PythonEnvironment:
    try:
        told: dict[str, Any] = json.loads(answer)
    except ValueError:
        tail = tuple(said.strip().splitlines()[-1:])
        raise PreparationError(f"the environment could not be built: {' '.join(tail)}", tail=tail) from None
    if "given" in told:
        raise PreparationError(told["given"], told["allowed"], told["hint"], tail=tuple(told["tail"]))
    return PythonEnvironment(told["python"], Path(told["prefix"]) if told["prefix"] else None)


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    wanted = request["requirements"]
    try:
        built = EnvironmentBuilder(Path(request["cache_dir"])).build(wanted, base=Path(request["base"]))
    except InputError as problem:
        tail = problem.tail if isinstance(problem, PreparationError) else ()
        return {"given": problem.given, "allowed": problem.allowed, "hint": problem.hint, "tail": list(tail)}
    return {"python": built.python, "prefix": str(built.prefix) if built.prefix else ""}


def _leave(_number: int, _frame: object) -> None:
    while kill_below(os.getpid(), frozenset()):
        with suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
    os._exit(128 + signal.SIGTERM)


def main(parent: int) -> None:
    """One request from standard input, one answer to standard output."""
    signal.signal(signal.SIGTERM, _leave)
    become_subreaper()
    die_with_parent(parent, signal.SIGTERM)
    print(json.dumps(_answer(json.loads(sys.stdin.read()))))


if __name__ == "__main__":
    main(int(sys.argv[1]))
