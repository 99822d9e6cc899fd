"""Commands that begin with a launcher (``torchrun train.py``), and what is left of them without it.

A launcher starts a process for each device of a machine; so does Penstock, with the same variables around it. Together
they would start the square of it. A launcher whose options are all understood is taken off the command, and the number
of processes it was told is the number of devices the job asks for. One with other options is left where it is.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_OTHERS = frozenset({"accelerate", "deepspeed", "mpirun", "horovodrun", "torchrun"})
_PYTHON = re.compile(r"python(3(\.\d+)?)?")


@dataclass(frozen=True, slots=True)
class _Options:
    """What a launcher understands: options with a value, switches, and who says how many processes there are."""

    valued: frozenset[str]
    switches: frozenset[str]
    processes: str
    machines: str
    total: bool
    variables: tuple[tuple[str, str], ...] = ()


_TORCHRUN = _Options(
    valued=frozenset({
        "nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port", "local-addr", "rdzv-backend",
        "rdzv-endpoint", "rdzv-id", "rdzv-conf", "max-restarts", "monitor-interval", "start-method", "role", "log-dir",
        "redirects", "r", "tee", "t", "local-ranks-filter",
    }),
    switches=frozenset({"standalone"}),
    processes="nproc-per-node", machines="nnodes", total=False,
)  # fmt: skip
_ACCELERATE = _Options(
    valued=frozenset({
        "num-processes", "num-machines", "machine-rank", "main-process-ip", "main-process-port", "mixed-precision",
    }),
    switches=frozenset({"multi-gpu", "quiet", "q", "same-network"}),
    processes="num-processes", machines="num-machines", total=True,
    variables=(("mixed-precision", "ACCELERATE_MIXED_PRECISION"),),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherUse:
    """A launcher in front of a command: how it is called, and the command, the devices and the variables without it.

    ``command`` is empty where the launcher has options that nobody here understands; it is then left where it is.
    ``interpreter`` is the Python that the launcher would start scripts with, where it says so by its own path.
    """

    name: str
    command: tuple[str, ...] = ()
    interpreter: str = ""
    devices: int | None = None
    variables: tuple[tuple[str, str], ...] = ()


def find_launcher(words: Sequence[str]) -> LauncherUse | None:
    """The launcher that a command begins with.

    >>> use = find_launcher("torchrun --standalone --nproc-per-node=4 train.py --lr 3".split())
    >>> use.command, use.devices
    (('train.py', '--lr', '3'), 4)
    """
    if not words:
        return None
    program = Path(words[0])
    beside = "" if program.name == words[0] else str(program.parent / "python")
    match words:
        case [_, "-m", "torch.distributed.run" | "torch.distributed.launch", *rest] if _PYTHON.fullmatch(program.name):
            return _understood("torch.distributed.run", rest, _TORCHRUN, words[0])
        case [_, *rest] if program.name == "torchrun":
            return _understood("torchrun", rest, _TORCHRUN, beside)
        case [_, "launch", *rest] if program.name == "accelerate":
            return _understood("accelerate launch", rest, _ACCELERATE, beside)
    return LauncherUse(name=program.name) if program.name in _OTHERS else None


def _understood(name: str, words: Sequence[str], known: _Options, interpreter: str) -> LauncherUse:
    given: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "--module"):
        option, equals, value = rest.pop(0).lstrip("-").replace("_", "-").partition("=")
        if option in known.switches and not equals:
            continue
        if option not in known.valued or not (equals or rest):
            return LauncherUse(name=name)
        given[option] = value if equals else rest.pop(0)
    if rest[:1] == ["--module"]:
        rest[0] = "-m"
    devices = _devices(given, known)
    if not rest or rest == ["-m"] or devices == 0:
        return LauncherUse(name=name)
    variables = tuple((name, given[option]) for option, name in known.variables if option in given)
    return LauncherUse(
        name=name, command=tuple(rest), interpreter=interpreter, devices=devices, variables=variables
    )  # fmt: skip


def _devices(given: Mapping[str, str], known: _Options) -> int | None:
    """Processes on all machines together; None where the launcher would count devices, 0 for what is no number."""
    processes = given.get(known.processes, "" if known.total else "1")
    if processes in ("", "auto", "gpu", "cpu"):
        return None
    machines = "1" if known.total else given.get(known.machines, "1").rpartition(":")[2]
    if not (processes.isdecimal() and machines.isdecimal()):
        return 0
    return int(processes) * int(machines)
