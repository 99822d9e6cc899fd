"""The file that a sweep grows: JSON lines, the settings first, then one line per finished cell.

A line is written in one piece when its cell is over, so an interrupted sweep leaves whole lines and at most one broken
one, which is dropped when the sweep goes on.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.core import InputError
from penstock.tools import write_atomically

FORMAT = 1

CellKey = tuple[Any, ...]


class ResultsFile:
    """Rows by cell, in a file that survives whatever happens to the process."""

    def __init__(self, path: Path, identity: Mapping[str, Any], *, anew: bool = False) -> None:
        self.path = path
        self.rows: dict[CellKey, dict[str, Any]] = {}
        if path.exists() and not anew:
            self._take_up(identity)
        else:
            self._begin(identity)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def add(self, row: dict[str, Any]) -> None:
        """One more cell is over."""
        os.write(self._file, (json.dumps(row) + "\n").encode())
        self.rows[key_of(row)] = row

    def close(self) -> None:
        os.close(self._file)

    def _begin(self, identity: Mapping[str, Any]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, _header(identity).encode())
        except OSError as problem:
            raise InputError(f"{self.path} cannot be written: {problem.strerror or problem}") from None

    def _take_up(self, identity: Mapping[str, Any]) -> None:
        lines = _whole_lines(self.path)
        if not lines:
            self._begin(identity)
            return
        self._check(_parsed(self.path, 1, lines[0]), identity)
        for number, line in enumerate(lines[1:], 2):
            row = _parsed(self.path, number, line)
            self.rows[key_of(row)] = row

    def _check(self, header: dict[str, Any], identity: Mapping[str, Any]) -> None:
        if header.get("sweep") != FORMAT:
            raise _not_ours(self.path, 1)
        before = header["settings"]
        changed = [name for name in {**before, **identity} if before.get(name) != identity.get(name)]
        if changed:
            told = "; ".join(f"{name} was {before.get(name)}, is {identity.get(name)}" for name in changed)
            raise InputError(
                f"{self.path} holds another sweep: {told}", "the settings it was begun with",
                "Choose another --out, or begin anew with --force",
            )  # fmt: skip


def key_of(row: Mapping[str, Any]) -> CellKey:
    return tuple(row[name] for name in ("policy", "cluster", "load", "wrong_by", "seed", "code"))


def _header(identity: Mapping[str, Any]) -> str:
    return json.dumps({"sweep": FORMAT, "settings": dict(identity)}) + "\n"


def _whole_lines(path: Path) -> list[str]:
    """The lines that were written to their end; what follows the last of them is cut off."""
    try:
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(path, len(whole))
        return whole.decode().splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path} cannot be read as results of a sweep: {problem}", hint=_OTHER) from None


def _parsed(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
        if not isinstance(value, dict):
            raise ValueError(line)
        if number > 1:
            key_of(value)
    except (ValueError, KeyError):
        raise _not_ours(path, number) from None
    return value


def _not_ours(path: Path, number: int) -> InputError:
    return InputError(f"{path}, line {number}, is not what a sweep writes", "a file of `penstock sweep`", _OTHER)


_OTHER = "Choose another --out, or begin anew with --force"
