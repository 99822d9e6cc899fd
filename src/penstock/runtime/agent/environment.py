"""Where a worker stands when it wakes up: what its environment says, before anything was agreed with anyone."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core import CHECKPOINT_EVERY, MEMORY_DIR, SAVED_STEP, WATCH_HOTSPOTS, WATCH_LOSS, AgentAddress, InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnvironment:
    """A worker's name, its first rank and world, and the ways to its agent and its checkpoints, if there are any."""

    worker: str = "w0"
    rank: int = 0
    size: int = 1
    local_rank: int = 0
    generation: int = 0
    agent: AgentAddress | None = None
    secret: str = field(default="", repr=False)
    checkpoints: str | None = None
    checkpoint_every: str | None = None
    saved_step: int = 0
    memory: str | None = None
    rendezvous: str = ""
    watch_loss: str | None = None
    profiles: bool = True

    @classmethod
    def from_environment(cls, env: Mapping[str, str] = os.environ) -> "WorkerEnvironment":
        """Read what torchrun and Penstock's agent set; with neither, a world of one."""
        rank = _number(env, "RANK", 0)
        return cls(
            worker=env.get("PENSTOCK_WORKER") or f"w{rank}",
            rank=rank,
            size=_number(env, "WORLD_SIZE", 1),
            local_rank=_number(env, "LOCAL_RANK", 0),
            generation=_number(env, "PENSTOCK_GENERATION", 0),
            agent=AgentAddress.parse(env["PENSTOCK_AGENT"]) if env.get("PENSTOCK_AGENT") else None,
            secret=_secret(env),
            checkpoints=env.get("PENSTOCK_CHECKPOINT_DIR") or None,
            checkpoint_every=env.get(CHECKPOINT_EVERY) or None,
            saved_step=_number(env, SAVED_STEP, 0),
            memory=env.get(MEMORY_DIR) or None,
            rendezvous="env://" if env.get("MASTER_ADDR") else "",
            watch_loss=env.get(WATCH_LOSS) or None,
            profiles=env.get(WATCH_HOTSPOTS) != "off",
        )


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name) or str(default)
    try:
        return int(text)
    except ValueError:
        raise InputError(
            f"the environment has {name}={text!r}", "a whole number", "Unset it or use a launcher"
        ) from None


def _path(env: Mapping[str, str], name: str) -> Path | None:
    return Path(env[name]) if env.get(name) else None


def _secret(env: Mapping[str, str]) -> str:
    """What the agent wants to hear: a file that only this user can read, or a variable where an engine sets one."""
    path = _path(env, "PENSTOCK_SECRET_FILE")
    if path is None:
        return env.get("PENSTOCK_SECRET", "")
    try:
        return path.read_text().strip()
    except OSError as error:
        raise InputError(
            f"PENSTOCK_SECRET_FILE={path} cannot be read: {error.strerror}", "the file that the run's agent wrote"
        ) from None
