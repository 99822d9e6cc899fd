"""How a command is run on a node: here, or through whatever reaches it (``ssh {node}``, ``srun -N1 -w {node}``)."""

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from penstock.core import InputError

_PLACE = "{node}"
_LOOK_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a command on a node ended and what it printed; ``code`` is none if it took too long."""

    node: str
    code: int | None
    output: str

    @property
    def last_line(self) -> str:
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """``through`` is a command line with {node} in it, put before what is to run; empty: everything runs here.

    ``python`` is the interpreter on the nodes.
    """

    through: str = ""
    python: str = sys.executable

    def __post_init__(self) -> None:
        if self.through and _PLACE not in self.through:
            raise InputError(
                f"a way to nodes {self.through!r} without {_PLACE}", f"a command with {_PLACE}", "Try 'ssh {node}'"
            )
        try:
            shlex.split(self.through)
        except ValueError as problem:
            raise InputError(f"a way to nodes {self.through!r}: {problem}", "a command line") from None

    def command(self, node: str, module: str, *words: str) -> list[str]:
        """What is started here so that a module runs there. A shell on the way splits words again."""
        way = [part.replace(_PLACE, node) for part in shlex.split(self.through)]
        return [*way, self.python, "-m", module, *words]

    def address(self, node: str) -> str:
        """Under what others find it."""
        return node if self.through else "127.0.0.1"


def run_all(commands: Sequence[tuple[str, list[str]]], *, timeout_s: float, worlds: Sequence[int] = ()) -> list[Answer]:
    """All of them side by side, each with its processes ended when the time is up.

    Those of one of ``worlds`` need each other: when one has failed, the others are ended at once.
    """
    answers: dict[int, Answer] = {}
    lost = {world: threading.Event() for world in worlds}

    def run(at: int, node: str, command: list[str]) -> None:
        event = lost[worlds[at]] if worlds else threading.Event()
        answers[at] = _run(node, command, timeout_s, event)
        if answers[at].code != 0:
            event.set()

    threads = [threading.Thread(target=run, args=(at, *each)) for at, each in enumerate(commands)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answers[at] for at in range(len(commands))]


def _run(node: str, command: list[str], timeout_s: float, lost: threading.Event) -> Answer:
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
            errors="replace", start_new_session=True, env={**os.environ, "PENSTOCK_NODE": node},
        )  # fmt: skip
    except OSError as problem:
        return Answer(node=node, code=127, output=f"{command[0]}: {problem.strerror}")
    end = time.monotonic() + timeout_s
    while time.monotonic() < end and not lost.is_set():
        with suppress(subprocess.TimeoutExpired):
            output, _ = process.communicate(timeout=min(_LOOK_S, timeout_s))
            return Answer(node=node, code=process.returncode, output=output)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    output, _ = process.communicate()
    return Answer(node=node, code=None, output=output)
