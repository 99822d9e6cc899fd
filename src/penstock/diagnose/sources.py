"""Which logs there are to read: files, directories of them, compressed ones, and what is piped in."""

import gzip
import io
import re
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from penstock.core import InputError
from penstock.diagnose.doctor import LogSource

STDIN = "-"
_RANKS = (
    re.compile(r"(?:^|[^a-z])(?:rank|worker|task|node_rank|proc|w|r)[-_.]?(\d{1,5})(?:\D|$)", re.IGNORECASE),
    re.compile(r"attempt_\d+/(\d{1,5})/"),
)
_BINARY = b"\0"
_PROBE = 4_096
_MOST_FILES = 20_000


def log_sources(paths: Iterable[str]) -> list[LogSource]:
    """The logs at these paths, in the order of their names below a directory; ``-`` is standard input."""
    found = [source for path in paths for source in _sources(path)]
    if not found:
        raise InputError("no logs", "files, directories that have some, or - for standard input", "Name at least one")
    return found


def _sources(path: str) -> Iterator[LogSource]:
    if path == STDIN:
        yield LogSource(name="stdin", open=lambda: cast("BinaryIO", sys.stdin.buffer))
        return
    place = Path(path)
    if place.is_dir():
        for number, file in enumerate(sorted(file for file in place.rglob("*") if file.is_file())):
            if number < _MOST_FILES and _is_text(file):
                yield _source(file, str(file.relative_to(place)))
    elif place.exists():
        yield _source(place, str(path))
    else:
        raise InputError(f"{path}: no such file", "a file, a directory, or - for standard input", "Check the path")


def _source(file: Path, name: str) -> LogSource:
    return LogSource(name=name, open=partial(_open, file), rank=_rank(name))


def _open(file: Path) -> BinaryIO:
    try:
        return cast("BinaryIO", gzip.open(file)) if file.suffix == ".gz" else file.open("rb", buffering=0)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}", "a file that can be read", "Check who may read it") from None


def _rank(name: str) -> int | None:
    """Whose log a file is, if its name says so."""
    found = next((match for pattern in _RANKS if (match := pattern.search(name))), None)
    return None if found is None else int(found[1])


def _is_text(file: Path) -> bool:
    if file.suffix == ".gz":
        return True
    try:
        with file.open("rb") as stream:
            return _BINARY not in stream.read(_PROBE)
    except OSError:
        return False


def text_source(text: str | bytes, name: str = "text", rank: int | None = None, node: str = "") -> LogSource:
    """What is in memory, as a log."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return LogSource(name=name, open=lambda: io.BytesIO(data), rank=rank, node=node)
