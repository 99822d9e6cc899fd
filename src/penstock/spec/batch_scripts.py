"""Batch scripts of Slurm as job files: what their ``#SBATCH`` lines ask for, and the command they end in.

Penstock starts one process for each device, with torchrun's variables around it, so a launcher in the script (``srun``,
``torchrun``, ``python -m torch.distributed.run``) is taken off the command; everything before it (modules, an
environment, variables) stays in front of it, in the same shell. What a batch script cannot say, such as how much there
is to do, comes from flags or from lines of its own::

    #SBATCH --job-name=bert --nodes=2 --gres=gpu:a100:4
    #PENSTOCK work: 10_000 steps
    source ~/envs/bert/bin/activate
    srun python train.py --lr 3e-4

What is not understood is not guessed: :attr:`BatchScript.ignored` names each such line with the reason.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.core import InputError
from penstock.spec.host_lists import expand_hosts

SUFFIXES = (".sbatch", ".slurm")
_SHORT = {
    "-J": "job-name", "-N": "nodes", "-n": "ntasks", "-t": "time", "-p": "partition", "-A": "account", "-o": "output",
    "-e": "error", "-c": "cpus-per-task", "-a": "array", "-d": "dependency", "-D": "chdir", "-G": "gpus", "-q": "qos",
    "-w": "nodelist", "-x": "exclude", "-C": "constraint",
}  # fmt: skip
_SWITCHES = frozenset({"requeue", "no-requeue", "exclusive", "overcommit", "hold", "parsable", "verbose"})
_REASONS = {
    "time": "runs are not cut off; give a deadline to be promised an end",
    "partition": "the server's own partition is used",
    "account": "the server charges the tenant's account",
    "output": "penstock logs shows the output",
    "error": "penstock logs shows the output",
    "cpus-per-task": "a device comes with its share of the node's cores",
    "mem": "a device comes with its share of the node's memory",
    "mem-per-cpu": "a device comes with its share of the node's memory",
    "mem-per-gpu": "a device comes with its share of the node's memory",
    "array": "give --array FIRST..LAST to penstock submit",
    "dependency": "submit the next job when the first one is done",
    "exclusive": "devices are never shared",
    "requeue": "failed runs are tried again anyway",
}  # fmt: skip
_LAUNCHERS = re.compile(r"^\s*(?:exec\s+)?(srun|torchrun|python3?(?=\s+-m\s+torch\.distributed\.(?:run|launch)))\b")
_COMMANDS = re.compile(r"^\s*(?:exec\s+)?(\S*python[\d.]*|accelerate|deepspeed)\s")
_VALUED_OPTIONS = re.compile(
    r"-[nNcpAwJtGo]|--?(nnodes|nproc[-_]per[-_]node|node[-_]rank|master[-_]\w+|rdzv[-_]\w+|max[-_]restarts)"
    r"|--(ntasks|nodes|cpus|gpus|tasks|mem)(-per-\w+)?|--(gres|partition|account|job-name|output|error|time|mpi|chdir"
    r"|cpu-bind|gpu-bind|distribution|nodelist|export|qos)"
)
"""Options of launchers whose value may be a word of its own."""
_TORCHRUN = re.compile(r"torchrun\b|\S*python[\d.]*\s+-m\s+torch\.distributed\.(run|launch)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchScript:
    """The keys of a job file that a batch script amounts to, and the lines that mean nothing here."""

    values: dict[str, Any]
    ignored: tuple[str, ...] = ()


@dataclass(slots=True)
class _Options:
    """What the ``#SBATCH`` lines say, the last word on each."""

    given: dict[str, str] = field(default_factory=dict)

    def number(self, name: str, default: int) -> int:
        text = self.given.get(name, "")
        first = text.split("-")[0].split(":")[-1]
        if text and not first.isdecimal():
            raise InputError(f"#SBATCH --{name}={text}", "a whole number", "Give the devices as a flag: --devices 8")
        return int(first) if first else default


def read_batch_script(path: Path) -> BatchScript:
    """The job in a batch script."""
    text = path.read_text()
    options, extra = _Options(dict(_sbatch_options(text))), dict(_own_lines(text))
    values: dict[str, Any] = {"command": ["bash", "-c", _command(text, path)]}
    used = {name for name, read in _READERS.items() if read(options, values)}
    unused = {name: value for name, value in options.given.items() if name not in used}
    ignored = tuple(
        f"--{name}{'=' if value else ''}{value}: {_REASONS.get(name, 'not understood')}"
        for name, value in unused.items()
    )
    return BatchScript(values={**values, **extra}, ignored=ignored)


def _sbatch_options(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if line.startswith("#SBATCH"):
            yield from _options(shlex.split(line.removeprefix("#SBATCH"), comments=True))


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name[:2] in _SHORT and not word.startswith("--"):
            name, value = f"--{_SHORT[name[:2]]}", word[2:]
            equals = value
        name = name.removeprefix("--")
        if not equals and name not in _SWITCHES and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        yield name, value


def _own_lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if line.startswith("#PENSTOCK"):
            key, colon, value = line.removeprefix("#PENSTOCK").partition(":")
            if not colon:
                raise InputError(f"the line {line!r}", "#PENSTOCK KEY: VALUE", "For example #PENSTOCK work: 90 epochs")
            yield key.strip(), value.strip()


def _command(text: str, path: Path) -> str:
    """The script up to its last launcher, and what that starts."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if not line.startswith("#")]
    for pattern in (_LAUNCHERS, _COMMANDS):
        found = [number for number, line in enumerate(lines) if pattern.match(line)]
        if found:
            before = [line for line in lines[: found[-1]] if line.strip()]
            return "\n".join([*before, f"exec {_without_launcher(lines[found[-1]].strip().removeprefix('exec '))}"])
    raise InputError(
        f"{path} starts no training that could be found", "a line with srun, torchrun or python",
        "Give the command itself: penstock submit -- python train.py",
    )  # fmt: skip


def _without_launcher(line: str) -> str:
    """``srun --ntasks 8 torchrun --nproc_per_node=4 train.py`` is ``python train.py`` for each process."""
    if line.startswith("srun"):
        return _without_launcher(_after_options(line.removeprefix("srun")))
    if match := _TORCHRUN.match(line):
        return f"python {_after_options(line[match.end() :])}"
    return line


def _after_options(line: str) -> str:
    """The rest of a line behind a launcher's options, as it is written."""
    rest = line.strip()
    while rest.startswith("-"):
        option, _, rest = rest.partition(" ")
        rest = rest.lstrip()
        if _VALUED_OPTIONS.fullmatch(option):
            rest = rest.partition(" ")[2].lstrip()
    return rest


# --- options that mean something --------------------------------------------------------------------------------------


def _name(options: _Options, values: dict[str, Any]) -> bool:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", options.given.get("job-name", "")).strip("._-")
    if name:
        values["name"] = name[:63]
    return bool(name)


def _devices(options: _Options, values: dict[str, Any]) -> bool:
    """One process for each accelerator; without any, one for each task."""
    nodes = options.number("nodes", 1)
    per_node, kind = _gres(options.given)
    tasks = options.number("ntasks", nodes * options.number("ntasks-per-node", 1))
    if "gpus" in options.given:
        count = options.number("gpus", 1)
    elif per_node:
        count = nodes * per_node
    elif "gpus-per-task" in options.given:
        count = tasks * options.number("gpus-per-task", 1)
    else:
        count = tasks
    values["devices"] = count
    if kind:
        values["kinds"] = [kind]
    return True


def _gres(given: Mapping[str, str]) -> tuple[int, str]:
    for option, prefix in (("gres", "gpu"), ("gpus-per-node", "")):
        for one in given.get(option, "").split(","):
            words = one.split(":")
            if not one or (prefix and words[0] not in (prefix, "npu")):
                continue
            words = words[1:] if prefix else words
            count = next((int(word) for word in words if word.isdecimal()), 1)
            return count, next((word for word in words if not word.isdecimal()), "")
    gpus = given.get("gpus", "").split(":")
    return 0, gpus[0] if len(gpus) == 2 else ""


def _is_given(option: str) -> Callable[[_Options, dict[str, Any]], bool]:
    """For options that another one reads."""
    return lambda options, _: option in options.given


def _grace(options: _Options, values: dict[str, Any]) -> bool:
    seconds = options.given.get("signal", "").partition("@")[2]
    if seconds.isdecimal():
        values["grace"] = f"{seconds}s"
    return seconds.isdecimal()


def _no_retries(options: _Options, values: dict[str, Any]) -> bool:
    if "no-requeue" in options.given:
        values["retries"] = 0
    return "no-requeue" in options.given


def _working_dir(options: _Options, values: dict[str, Any]) -> bool:
    if "chdir" in options.given:
        values["environment"] = {"working_dir": options.given["chdir"]}
    return "chdir" in options.given


def _names_nodes(option: str, key: str) -> Callable[[_Options, dict[str, Any]], bool]:
    """Nodes that are listed are where it runs, and no others."""

    def read(options: _Options, values: dict[str, Any]) -> bool:
        if names := expand_hosts(options.given.get(option, "")):
            values.setdefault("nodes", {})[key] = names
        return bool(names)

    return read


_READERS: dict[str, Callable[[_Options, dict[str, Any]], bool]] = {
    "job-name": _name, "nodes": _devices, "signal": _grace, "no-requeue": _no_retries, "chdir": _working_dir,
    "nodelist": _names_nodes("nodelist", "only"), "exclude": _names_nodes("exclude", "avoid"),
    **{
        option: _is_given(option)
        for option in ("ntasks", "ntasks-per-node", "gres", "gpus", "gpus-per-node", "gpus-per-task")
    },
}  # fmt: skip
