"""What a worker sees: the variables torchrun's users know, its devices, and where the agent is.

The server's own environment is not the job's: cloud keys and passwords stay where they are. What a job inherits is what
:data:`INHERITED` lists, and what the server's configuration adds to that.
"""

import fnmatch
import re
import shutil
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.agent.memory_place import memory_place
from penstock.backends.agent.states import WorkerGroup
from penstock.core import MEMORY_DIR, AgentAddress, Launch, Worker
from penstock.tools import UnixUser, acting_as

VISIBILITY = frozenset({"CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"})
"""Lists of devices. A worker sees those of its group on its node in rank order: ``LOCAL_RANK`` picks its own."""

NO_ACCELERATORS = tuple((name, "") for name in sorted(VISIBILITY))
"""What hides them from a process."""

INHERITED = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANG", "LANGUAGE", "LC_*", "TMPDIR", "TMP", "TEMP",
    "PYTHONPATH", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "VIRTUAL_ENV", "CONDA_PREFIX",
    "LD_LIBRARY_PATH", "CUDA_*", "NVIDIA_*", "NCCL_*", "GLOO_*", "UCX_*", "ASCEND_*", "HCCL_*", "HIP_*", "ROCR_*",
    "HSA_*", "TORCH_*", "TORCHINDUCTOR_*", "PYTORCH_*", "TRITON_*", "XLA_*", "OMP_*", "MKL_*", "OPENBLAS_*", "NUMBA_*",
    "http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "PIP_NO_INDEX",
    "PIP_FIND_LINKS", "PIP_DEFAULT_TIMEOUT", "PIP_CACHE_DIR",
)  # fmt: skip
"""Variables of the server that reach jobs; ``*`` stands for any ending. ``pass_environment`` adds names to these."""

_LAUNCHERS_OWN = frozenset({
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "NNODES", "NPROC_PER_NODE",
    "MASTER_ADDR", "MASTER_PORT",
})  # fmt: skip
_FOREIGN = re.compile(r"PENSTOCK_|TORCHELASTIC_|ROLE_(RANK|NAME|WORLD_SIZE)$")
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_USES_TORCH = re.compile(rb"^[ \t]*(?:import|from)\s+(?:torch|penstock)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """A Python script with its arguments and the interpreter it is meant for."""

    interpreter: str
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPaths:
    """What workers find on the disk: the run's directory, its checkpoints, a file to write progress to, their plan."""

    directory: Path
    checkpoints: Path
    progress: Path
    plan: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class MeetingPoint:
    """How the workers of one group reach their agent and each other.

    ``secret_file`` holds what the agent wants to hear; ``master`` is an address of rank 0's machine that all others
    reach, with a ``port`` that nobody uses.
    """

    agent: AgentAddress
    secret_file: Path
    master: str
    port: int


def inherited_environment(environ: Mapping[str, str], also: Iterable[str] = ()) -> dict[str, str]:
    """What of a server's environment its jobs see."""
    patterns = (*INHERITED, *also)
    return {
        name: value
        for name, value in environ.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }


def base_environment(inherited: Mapping[str, str], launch: Launch, paths: RunPaths) -> dict[str, str]:
    """What all workers of a run have in common; also how their processes are recognised after an agent's death."""
    kept = {k: v for k, v in inherited.items() if k not in _LAUNCHERS_OWN and not _FOREIGN.match(k)}
    return {
        **kept,
        "PYTHONUNBUFFERED": "1",
        **dict(launch.env),
        "PENSTOCK_JOB_ID": launch.job_id,
        "PENSTOCK_RUN_DIR": str(paths.directory),
        "PENSTOCK_CHECKPOINT_DIR": launch.checkpoint_dir or str(paths.checkpoints),
        **({MEMORY_DIR: str(place)} if (place := memory_place(paths.directory)) else {}),
        "PENSTOCK_ATTEMPT": str(launch.attempt),
        "PENSTOCK_PROGRESS": str(paths.progress),
        **({"PENSTOCK_PLAN": str(paths.plan)} if launch.plans else {}),
        "TORCHELASTIC_RUN_ID": launch.run_id,
    }


def worker_environment(
    base: Mapping[str, str], group: WorkerGroup, worker: Worker, *, meeting: MeetingPoint, restart_count: int
) -> dict[str, str]:
    """The whole environment of one worker."""
    here = [peer.id for peer in group.workers if peer.node == worker.node]
    nodes = list(dict.fromkeys(peer.node for peer in group.workers))
    node_rank, local_size = str(nodes.index(worker.node)), str(len(here))
    return {
        **base,
        **_device_environment(group, worker),
        "RANK": str(group.rank_of(worker.id)), "WORLD_SIZE": str(group.size),
        "LOCAL_RANK": str(here.index(worker.id)), "LOCAL_WORLD_SIZE": local_size, "NPROC_PER_NODE": local_size,
        "GROUP_RANK": node_rank, "NODE_RANK": node_rank, "NNODES": str(len(nodes)),
        "MASTER_ADDR": meeting.master, "MASTER_PORT": str(meeting.port),
        "TORCHELASTIC_RESTART_COUNT": str(restart_count),
        "PENSTOCK_AGENT": str(meeting.agent), "PENSTOCK_SECRET_FILE": str(meeting.secret_file),
        "PENSTOCK_WORKER": worker.id, "PENSTOCK_GENERATION": str(group.generation),
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


def named_python(command: Sequence[str]) -> str:
    """The Python of a job as its command calls it, or as most do."""
    return command[0] if _PYTHON.fullmatch(Path(command[0]).name) else "python3"


def job_python(command: Sequence[str], env: Mapping[str, str]) -> str:
    """The Python of a job on this machine."""
    return _interpreter(named_python(command), env)


def wants_torch(script: Script, working_dir: str, user: UnixUser | None = None) -> bool:
    """Whether a warm interpreter would save the script anything. One that cannot be read fails better on its own."""
    path = Path(working_dir) / script.argv[0]
    try:
        with acting_as(user):
            return path.is_file() and bool(_USES_TORCH.search(path.read_bytes()))
    except OSError:
        return False


def _interpreter(name: str, env: Mapping[str, str]) -> str:
    return shutil.which(name, path=env.get("PATH")) or (sys.executable if name == "python3" else name)


def _device_environment(group: WorkerGroup, worker: Worker) -> dict[str, str]:
    own = dict(worker.device_env)
    here = [dict(peer.device_env) for peer in group.workers if peer.node == worker.node]
    for name in VISIBILITY & own.keys():
        own[name] = ",".join(env.get(name, "") for env in here)
    return own
