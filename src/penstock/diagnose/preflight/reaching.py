"""How a command is run on a node: here, or through whatever reaches it (``ssh {node}``, ``srun -N1 -w {node}``)."""

import itertools
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from penstock.core import InputError, ModuleCall, NodeAnswer, NodeReach

_PLACE = "{node}"
_LOOK_S = 0.25
_FIRST_PORT = 29600
_PORTS = 200
_TURNS = itertools.count()


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

    def run(self, call: ModuleCall, *, timeout_s: float, lost: threading.Event) -> NodeAnswer:
        command = self.command(call.node, call.module, *call.words)
        return run_command(call.node, command, timeout_s=timeout_s, lost=lost)

    def meeting(self, node: str) -> tuple[str, int]:
        """Here at a free port where worlds meet here; else at one of a range that preflight keeps to itself."""
        return (node, _FIRST_PORT + next(_TURNS) % _PORTS) if self.through else ("127.0.0.1", _free_port())


def run_all(
    calls: Sequence[ModuleCall], reach: NodeReach, *, timeout_s: float, worlds: Sequence[int] = ()
) -> list[NodeAnswer]:
    """All of them side by side, each with its processes ended when the time is up.

    Those of one of ``worlds`` need each other: when one has failed, the others are ended at once.
    """
    answers: dict[int, NodeAnswer] = {}
    lost = {world: threading.Event() for world in worlds}

    def run(at: int, call: ModuleCall) -> None:
        event = lost[worlds[at]] if worlds else threading.Event()
        answers[at] = reach.run(call, timeout_s=timeout_s, lost=event)
        if answers[at].code != 0:
            event.set()

    threads = [threading.Thread(target=run, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answers[at] for at in range(len(calls))]


def run_command(node: str, command: list[str], *, timeout_s: float, lost: threading.Event) -> NodeAnswer:
    """A command that is started here; what it does elsewhere is its own business."""
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
            errors="replace", start_new_session=True, env={**os.environ, "PENSTOCK_NODE": node},
        )  # fmt: skip
    except OSError as problem:
        return NodeAnswer(node=node, code=127, output=f"{command[0]}: {problem.strerror}")
    end = time.monotonic() + timeout_s
    while time.monotonic() < end and not lost.is_set():
        with suppress(subprocess.TimeoutExpired):
            output, _ = process.communicate(timeout=min(_LOOK_S, timeout_s))
            return NodeAnswer(node=node, code=process.returncode, output=output)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    output, _ = process.communicate()
    return NodeAnswer(node=node, code=None, output=output)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
