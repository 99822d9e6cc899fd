"""The seam between an agent and an engine that starts workers elsewhere: Kubernetes, Slurm, or one of your own.

A *part* is one worker's place in an engine: a pod, a batch job. The agent decides which parts there are; a
:class:`PartLauncher` has the engine create and delete them, and tells a :class:`PartListener` what the engine says of
them. In every part runs ``python -m penstock.backends.agent.worker_host`` (:data:`HOST_COMMAND`) with
:meth:`Part.host_environment` around it; it connects to the agent by itself, and everything else goes over that line:
the command to start, its output, its signals and its end. So an engine never needs to carry output, exit codes or
signals of workers: what it is asked for is a place, and what it tells is why there is none or why it was taken away.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from penstock.core import AgentAddress, InputError, Launch, Worker, load_plugin
from penstock.tools import UnixUser

HOST_MODULE = "penstock.backends.agent.worker_host"
HOST_COMMAND = (sys.executable, "-P", "-m", HOST_MODULE)
"""What runs in a part on machines that have this Python at the same path; elsewhere with theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One worker's place, to be created by an engine.

    ``name`` is unique in the run, also across restarts, and made of lower-case letters, digits and '-'. ``agent`` is
    where the host finds the agent. ``secret`` lets it in: it belongs into a file that only its user can read or into
    the engine's own kind of secret, never into a command line, a log or a description that others can read.
    """

    name: str
    worker: Worker
    launch: Launch
    agent: AgentAddress
    secret: str = field(repr=False)

    @property
    def run_id(self) -> str:
        return self.launch.run_id

    def host_environment(self) -> dict[str, str]:
        """Variables of the worker host; beside them it needs ``PENSTOCK_SECRET_FILE`` or ``PENSTOCK_SECRET``."""
        return {
            "PENSTOCK_AGENT": str(self.agent),
            "PENSTOCK_PART": self.name,
            "PENSTOCK_WORKER": self.worker.id,
            "PENSTOCK_GRACE_S": f"{self.launch.grace_s:g}",
        }


class PartFate(StrEnum):
    """Why a part is not there any more, as its engine tells."""

    EXITED = "exited"
    """Its host has ended by itself."""
    DELETED = "deleted"
    """Somebody has deleted or cancelled it, the agent included."""
    EVICTED = "evicted"
    """The engine has taken it away: a drain, a preemption, a lack of memory or disk on the node."""
    NODE_LOST = "node_lost"
    OUT_OF_MEMORY = "out_of_memory"
    TIME_LIMIT = "time_limit"
    REFUSED = "refused"
    """It never ran, and as it is never will: an unknown image, node or account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEnd:
    """How a part ended; ``words`` are the engine's own."""

    fate: PartFate
    code: int | None = None
    words: str = ""


class PartListener(Protocol):
    """Who wants to know about parts. Called in the thread of the agent's event loop; unknown names are passed over."""

    def on_part_created(self, name: str, engine_id: str) -> None:
        """The engine knows the part, under a name of its own that people can look for."""
        ...

    def on_part_waiting(self, name: str, words: str) -> None:
        """The part does not run yet, for a reason in the engine's own words: a queue, a lack of room, an image."""
        ...

    def on_part_ended(self, name: str, end: PartEnd) -> None:
        """The part is gone, or its node is: nothing of it runs any more, or can do harm."""
        ...


class PartLauncher(Protocol):
    """An engine's side of one run. Coroutines run in the agent's event loop and must not block it.

    Every method may be called again; none raises for what the engine may answer differently later: that is told to the
    listener as a wait, and tried again by the launcher itself.
    """

    async def clear(self) -> None:
        """End parts that an earlier agent of the same run has left; returns when none of them can run any more."""
        ...

    async def create(self, part: Part) -> None:
        """Ask for a part on ``part.worker``'s node and device; a part of that name that exists is left as it is."""
        ...

    async def delete(self, name: str, grace_s: float) -> None:
        """Have a part ended: its host is asked by SIGTERM and killed after ``grace_s``."""
        ...

    async def close(self) -> None:
        """The run is over: delete what is left, with no grace, and let go of everything."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRun:
    """The run that a launcher is made for. ``directory`` is its own, beside the server; ``user`` is whose processes its
    workers are, if not the server's. ``is_new``: no earlier agent can have left anything of it in the engine."""

    run_id: str
    directory: Path
    settings: Mapping[str, Any]
    user: UnixUser | None = None
    is_new: bool = False


PartLauncherFactory = Callable[[PartRun, PartListener], PartLauncher]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEngine:
    """Which engine an agent uses: ``module:factory`` of a :data:`PartLauncherFactory`, and its settings as JSON.

    A part whose host has not come within ``start_limit_s`` fails with the engine's words; without a limit it may wait
    in the engine's queue for as long as that takes.
    """

    factory: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    start_limit_s: float | None = 300.0

    def to_json(self) -> str:
        return json.dumps(
            {"factory": self.factory, "settings": dict(self.settings), "start_limit_s": self.start_limit_s}
        )

    def launcher(self, run: PartRun, listener: PartListener) -> PartLauncher:
        """The engine's side of a run."""
        make: PartLauncherFactory = load_plugin("engine", self.factory)
        return make(run, listener)

    @classmethod
    def from_json(cls, text: str) -> "PartEngine":
        try:
            found = json.loads(text)
            limit_s = found["start_limit_s"]
            return cls(
                factory=str(found["factory"]), settings=dict(found["settings"]),
                start_limit_s=None if limit_s is None else float(limit_s),
            )  # fmt: skip
        except (ValueError, TypeError, KeyError):
            raise InputError(
                f"an engine given as {text!r}", 'a JSON object with "factory", "settings" and "start_limit_s"'
            ) from None
