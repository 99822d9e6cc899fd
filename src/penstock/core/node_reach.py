"""How a module of this package is run on other nodes.

Who checks nodes (:mod:`penstock.diagnose`) and who reaches those of a run (an agent of :mod:`penstock.backends`) do not
know each other: they meet in these words.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.core.preflight import PreflightLevel, PreflightVerdict

CHECK_FOR_JOB = "penstock.diagnose:check_for_job"
"""Whom an agent asks to check nodes, loaded when a run asks for it: a :class:`JobCheck`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswer:
    """How a command on a node ended and what it printed; ``code`` is none if it took too long."""

    node: str
    code: int | None
    output: str

    @property
    def last_line(self) -> str:
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleCall:
    """A module of this package to be run on a node. ``own``: by the Python of whoever reaches the node, with nothing
    of a job's environment around it."""

    node: str
    module: str
    words: tuple[str, ...] = ()
    own: bool = False


class NodeReach(Protocol):
    """A way to nodes. Called in threads."""

    def run(self, call: ModuleCall, *, timeout_s: float, lost: threading.Event) -> NodeAnswer:
        """Wait for the end of a call; it is ended when the time is up or ``lost`` is set."""
        ...

    def meeting(self, node: str) -> tuple[str, int]:
        """An address of a node that others reach, and a port there that nobody listens on."""
        ...


class JobCheck(Protocol):
    """Checks the places of a run, each a name that ``reach`` knows, by the nodes they are on."""

    def __call__(self, places: Mapping[str, str], reach: NodeReach, level: PreflightLevel) -> PreflightVerdict: ...
