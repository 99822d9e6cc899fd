"""What a worker sees: the variables torchrun's users know, its devices, and where the agent is.

The server's own settings are not the job's: inherited ``PENSTOCK_`` variables and leftovers of another launcher are
dropped before anything is added.
"""

import re
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.local.rundir import RunDir
from penstock.backends.local.states import World
from penstock.core import Launch, Worker

VISIBILITY = frozenset({"CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"})
"""Lists of devices. A worker sees those of its whole world in rank order, so that ``LOCAL_RANK`` picks its own."""

_LAUNCHERS_OWN = frozenset({
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "NNODES", "NPROC_PER_NODE",
    "MASTER_ADDR", "MASTER_PORT",
})  # fmt: skip
_FOREIGN = re.compile(r"PENSTOCK_|TORCHELASTIC_|ROLE_(RANK|NAME|WORLD_SIZE)$")
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_USES_TORCH = re.compile(rb"^\s*(?:import|from)\s+(?:torch|penstock)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """A Python script with its arguments and the interpreter it is meant for."""

    interpreter: str
    argv: tuple[str, ...]


def base_environment(inherited: Mapping[str, str], launch: Launch, run_dir: RunDir) -> dict[str, str]:
    """What all workers of a run have in common; also how their processes are recognised after an agent's death."""
    kept = {k: v for k, v in inherited.items() if k not in _LAUNCHERS_OWN and not _FOREIGN.match(k)}
    return {
        **kept,
        "PYTHONUNBUFFERED": "1",
        **dict(launch.env),
        "PENSTOCK_JOB_ID": launch.job_id,
        "PENSTOCK_RUN_DIR": str(run_dir.path),
        "PENSTOCK_CHECKPOINT_DIR": launch.checkpoint_dir or str(run_dir.checkpoints),
        "PENSTOCK_ATTEMPT": str(launch.attempt),
        "PENSTOCK_PROGRESS": str(run_dir.progress),
        "TORCHELASTIC_RUN_ID": launch.run_id,
    }


def worker_environment(
    base: Mapping[str, str], world: World, worker: Worker, *, agent: str, port: int, restart_count: int
) -> dict[str, str]:
    """The whole environment of one worker."""
    rank, size = str(world.rank_of(worker.id)), str(world.size)
    return {
        **base,
        **_device_environment(world, worker),
        "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size,
        "GROUP_RANK": "0", "NODE_RANK": "0", "NNODES": "1", "NPROC_PER_NODE": size,
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": str(restart_count),
        "PENSTOCK_AGENT": agent, "PENSTOCK_WORKER": worker.id, "PENSTOCK_GENERATION": str(world.generation),
    }  # fmt: skip


def free_port() -> int:
    """A port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def find_script(command: Sequence[str], env: Mapping[str, str]) -> Script | None:
    """The script in ``python script.py …`` or ``script.py …``; nothing for any other command or Python option."""
    first = command[0]
    if first.endswith(".py"):
        return Script(_interpreter("python3", env), tuple(command))
    rest = [word for word in command[1:2] if word != "-u"] + list(command[2:])
    if _PYTHON.fullmatch(Path(first).name) and rest and rest[0].endswith(".py"):
        return Script(_interpreter(first, env), tuple(rest))
    return None


def wants_torch(script: Script, working_dir: str) -> bool:
    """Whether a warm interpreter would save the script anything. One that cannot be read fails better on its own."""
    try:
        return bool(_USES_TORCH.search((Path(working_dir) / script.argv[0]).read_bytes()))
    except OSError:
        return False


def _interpreter(name: str, env: Mapping[str, str]) -> str:
    return shutil.which(name, path=env.get("PATH")) or (sys.executable if name == "python3" else name)


def _device_environment(world: World, worker: Worker) -> dict[str, str]:
    own = dict(worker.device_env)
    for name in VISIBILITY & own.keys():
        own[name] = ",".join(dict(peer.device_env).get(name, "") for peer in world.workers)
    return own
