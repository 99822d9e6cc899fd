"""What determines how fast a job runs.

Two jobs with the same fingerprint are expected to train at the same speed on the same devices, so what was measured
for one holds for the other. Name, goal, tenant, priority, paths and how long to train do not matter; the rest of the
command, the content of the scripts and settings it names, the batch, the packages and the variables do. Modules a
script imports are not followed: if they change the speed, new measurements outweigh the old ones within an hour or two
of training.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from penstock.core import InputError
from penstock.spec.amounts import timeless
from penstock.spec.commands import words_of

_READ = frozenset({".py", ".sh", ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg"})
_LARGEST_BYTES = 4 << 20
_NO_MATTER = re.compile(r".*(TOKEN|SECRET|PASSWORD|API_KEY)$|(WANDB|MLFLOW|COMET|NEPTUNE|HF_HUB|GIT)_.*|.*LOG_?LEVEL$")


def fingerprint_of(
    *,
    command: str | tuple[str, ...],
    working_dir: Path,
    global_batch: int | None,
    env: Mapping[str, str],
    requirements: str | tuple[str, ...] | None,
) -> str:
    """A hash of everything above; 32 hexadecimal digits."""
    decisive = {
        "command": [_content_or(word, working_dir) for word in timeless(words_of(command))],
        "batch": global_batch,
        "env": {name: value for name, value in sorted(env.items()) if not _NO_MATTER.fullmatch(name)},
        "packages": _packages(requirements, working_dir),
    }
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:32]


def _content_or(word: str, working_dir: Path) -> str:
    """The hash of the file a word names, if it names a script or settings; else the word."""
    path = working_dir / word
    if path.suffix not in _READ:
        return word
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_BYTES:
            return word
        return "content:" + hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError) as problem:
        raise InputError(f"{path} cannot be read: {problem}", "a readable file", "Check its permissions") from None


def _packages(requirements: str | tuple[str, ...] | None, working_dir: Path) -> list[str]:
    if isinstance(requirements, str):
        path = working_dir / requirements
        try:
            requirements = tuple(path.read_text().splitlines()) if path.is_file() else (requirements,)
        except (OSError, ValueError) as problem:
            raise InputError(f"{path} cannot be read: {problem}", "a text file", "Check the file") from None
    lines = (line.split("#")[0].strip() for line in requirements or ())
    return sorted(line for line in lines if line)
