"""Environments are built in a process of their own: as the job's user, within a time limit, and never left behind.

What a package does while it is installed is its author's, and a setup script is its job's: they run code, take hours or
hang. So the server starts this module as the job's user, hands it one request and waits in a thread of its own. What
the tools say meanwhile is passed on as it comes. The kernel tells the process when the server is gone, and it ends with
everything it started; so it does when its time is over.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from penstock.backends.agent.containers import DAEMONLESS, DAEMONS
from penstock.backends.agent.processes import become_subreaper, kill_below
from penstock.backends.base import PreparationError
from penstock.backends.environments.conda_environments import CondaEnvironments, find_conda
from penstock.backends.environments.container_images import ContainerImages, find_runtime
from penstock.backends.environments.python_environments import EnvironmentBuilder, PythonEnvironment
from penstock.backends.environments.setup_script import SetupScript
from penstock.core import Container, InputError, build, plain
from penstock.tools import UnixUser, die_with_parent, may_execute, process_options

LIMIT_S = 1800.0
"""How long an environment may take to be built."""
_LEAVE_S = 5.0
_SAID_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRequest:
    """What a job asks for, from which directory, and the variables that are around its setup script.

    ``runtimes`` are the programs that may start its container, the preferred one first.
    """

    base: str
    requirements: tuple[str, ...] = ()
    requirements_file: str = ""
    conda: str = ""
    setup: str = ""
    container: Container | None = None
    runtimes: tuple[str, ...] = (*DAEMONS, *DAEMONLESS)
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltEnvironment:
    """What became of it: an interpreter with the variables that belong to it, or a container."""

    python: str = "python"
    prefix: str = ""
    activation: tuple[tuple[str, str], ...] = ()
    container: Container | None = None

    def variables(self, base: Mapping[str, str]) -> dict[str, str]:
        """What workers need besides ``base``."""
        prefix = Path(self.prefix) if self.prefix else None
        return PythonEnvironment(self.python, prefix, self.activation).variables(base)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentProcess:
    """Builds environments below ``cache_dir`` as ``user``, with ``environ`` around the tools.

    ``output`` gets what they say.
    """

    cache_dir: Path
    environ: Mapping[str, str]
    user: UnixUser | None = None
    limit_s: float = LIMIT_S
    output: Callable[[bytes], None] = lambda _: None

    def build(self, request: EnvironmentRequest) -> BuiltEnvironment:
        """The environment, when it is ready; raises :class:`~penstock.core.InputError` for what cannot be."""
        if self.user is not None and not may_execute(self.user, sys.executable):
            raise PreparationError(
                f"the user {self.user.name} cannot start {sys.executable}", "a Python that every user may start",
                "Ask whoever runs the server to install it in a directory that everybody can enter",
            )  # fmt: skip
        argv = [sys.executable, "-P", "-c", f"from {__name__} import main; main({os.getpid()})"]
        child = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**self.environ, **(self.user.variables if self.user else {})}, cwd="/", start_new_session=True,
            **process_options(self.user),
        )  # fmt: skip
        answer, said, in_time = self._heard(child, {"cache_dir": str(self.cache_dir), "asked": plain(request)})
        if not in_time:
            raise PreparationError(
                f"the environment was not ready within {self.limit_s:g} s", "",
                "Ask for less in environment, or raise prepare_limit of the server", tail=said,
            )  # fmt: skip
        return _read(answer, said)

    def _heard(
        self, child: "subprocess.Popen[bytes]", request: Mapping[str, Any]
    ) -> tuple[bytes, tuple[str, ...], bool]:
        """Its answer, its last words, and whether it ended in time."""
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        last: deque[str] = deque(maxlen=_SAID_LINES)
        listener = threading.Thread(target=self._pass_on, args=(child.stderr, last), daemon=True)
        listener.start()
        late = threading.Event()
        over = threading.Timer(self.limit_s, _end, (child, late))
        over.start()
        with suppress(BrokenPipeError), child.stdin as asked:
            asked.write(json.dumps(request).encode())
        with child.stdout as told:
            answer = told.read()
        child.wait()
        over.cancel()
        listener.join(_LEAVE_S)
        return answer, tuple(last), not late.is_set()

    def _pass_on(self, said: IO[bytes], last: deque[str]) -> None:
        with said:
            for line in said:
                self.output(line)
                if line.strip():
                    last.append(line.decode(errors="replace").rstrip())


def _end(child: "subprocess.Popen[bytes]", late: threading.Event) -> None:
    """Ask it to take everything below it along; a process that does not is killed with its group."""
    late.set()
    child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.wait(timeout=_LEAVE_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _read(answer: bytes, said: tuple[str, ...]) -> BuiltEnvironment:
    try:
        told: dict[str, Any] = json.loads(answer)
    except ValueError:
        tail = said[-1:]
        raise PreparationError(f"the environment could not be built: {' '.join(tail)}", tail=tail) from None
    if "given" in told:
        raise PreparationError(told["given"], told["allowed"], told["hint"], tail=tuple(told["tail"]))
    built: BuiltEnvironment = build(BuiltEnvironment, told)
    return built


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        asked: EnvironmentRequest = build(EnvironmentRequest, request["asked"])
        answer: dict[str, Any] = plain(built_environment(asked, Path(request["cache_dir"])))
        return answer
    except InputError as problem:
        tail = problem.tail if isinstance(problem, PreparationError) else ()
        return {"given": problem.given, "allowed": problem.allowed, "hint": problem.hint, "tail": list(tail)}


def built_environment(asked: EnvironmentRequest, cache_dir: Path) -> BuiltEnvironment:
    """The environment, built here and now by this process or found below ``cache_dir``."""
    setup = SetupScript(asked.setup, Path(asked.base), asked.variables) if asked.setup else None
    if asked.container is not None:
        runtime = find_runtime(os.environ, asked.runtimes)
        image = ContainerImages(runtime, cache_dir).ready(asked.container.image, setup)
        return BuiltEnvironment(container=Container(image=image, mounts=asked.container.mounts, runtime=runtime))
    if asked.conda:
        found = CondaEnvironments(find_conda(os.environ), cache_dir).build(asked.conda, setup)
    else:
        wanted = asked.requirements_file or asked.requirements
        found = EnvironmentBuilder(cache_dir).build(wanted, base=Path(asked.base), setup=setup)
    prefix = str(found.prefix) if found.prefix else ""
    return BuiltEnvironment(python=found.python, prefix=prefix, activation=found.activation)


def _end_below() -> None:
    while kill_below(os.getpid(), frozenset()):
        with suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)


def _leave(_number: int, _frame: object) -> None:
    _end_below()
    os._exit(128 + signal.SIGTERM)


def main(parent: int) -> None:
    """One request from standard input, one answer to standard output."""
    signal.signal(signal.SIGTERM, _leave)
    become_subreaper()
    die_with_parent(parent, signal.SIGTERM)
    answer = _answer(json.loads(sys.stdin.read()))
    _end_below()
    print(json.dumps(answer))
