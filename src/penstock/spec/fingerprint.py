"""What determines how fast a job runs.

Two jobs with the same fingerprint are expected to train at the same speed on the same devices, so what was measured
for one holds for the other. Name, goal, tenant, priority, paths and how long to train do not matter; the rest of the
command, the content of the scripts and settings it names, of the modules beside a script that it imports, the batch,
the packages and the variables do. What is installed is not followed: if that changes the speed, new measurements
outweigh the old ones within an hour or two of training.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.core import InputError
from penstock.spec.amounts import timeless
from penstock.spec.commands import words_of
from penstock.spec.local_modules import LARGEST_BYTES, local_modules
from penstock.tools import read_regular

_READ = frozenset({".py", ".sh", ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg"})
_NO_MATTER = re.compile(r".*(TOKEN|SECRET|PASSWORD|API_KEY)$|(WANDB|MLFLOW|COMET|NEPTUNE|HF_HUB|GIT)_.*|.*LOG_?LEVEL$")


def fingerprint_of(
    *,
    command: str | tuple[str, ...],
    working_dir: Path,
    global_batch: int | None,
    env: Mapping[str, str],
    requirements: str | tuple[str, ...] | None,
    software: Sequence[str] = (),
    limits: Sequence[float | None] = (),
) -> str:
    """A hash of everything above; 32 hexadecimal digits."""
    decisive: dict[str, object] = {
        "command": [_content_or(word, working_dir) for word in timeless(words_of(command))],
        "batch": global_batch,
        "env": {name: value for name, value in sorted(env.items()) if not _NO_MATTER.fullmatch(name)},
        "packages": _packages(requirements, working_dir),
    }
    if any(software):
        decisive["software"] = [_content_or(text, working_dir) if len(text.split()) == 1 else text for text in software]
    if any(limits):
        decisive["limits"] = list(limits)
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:32]


def _content_or(word: str, working_dir: Path) -> str:
    """The hash of the file a word names, if it names a script or settings; else the word."""
    path = working_dir / word
    if path.suffix not in _READ:
        return word
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_BYTES:
            return word
        modules = local_modules(path, working_dir) if path.suffix == ".py" else ()
        return "+".join(["content:" + _hash(path), *map(_hash, modules)])
    except (OSError, ValueError) as problem:
        raise InputError(f"{path} cannot be read: {problem}", "a readable file", "Check its permissions") from None


def _hash(path: Path) -> str:
    return hashlib.sha256(read_regular(path, LARGEST_BYTES, follow=True)).hexdigest()


def _packages(requirements: str | tuple[str, ...] | None, working_dir: Path) -> list[str]:
    if isinstance(requirements, str):
        path = working_dir / requirements
        try:
            readable = path.is_file() and path.stat().st_size <= LARGEST_BYTES
            if readable:
                requirements = tuple(read_regular(path, LARGEST_BYTES, follow=True).decode().splitlines())
        except (OSError, ValueError) as problem:
            raise InputError(f"{path} cannot be read: {problem}", "a text file", "Check the file") from None
    listed = (requirements,) if isinstance(requirements, str) else requirements or ()
    lines = (line.split("#")[0].strip() for line in listed)
    return sorted(line for line in lines if line)
