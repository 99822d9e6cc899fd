"""Where a data set lies: a directory, or below a URL.

What is read from a URL is kept on this machine. Small files are copied whole; of others only the blocks that somebody
reads, into a sparse file that all processes of the machine share, so a window of an epoch costs what it reads. Copies
stay for the next epoch and the next run until the cache is over its budget; then the files that were opened longest ago
go. A store that does not answer is asked again after 1, 2, 4 and 8 seconds.
"""

import hashlib
import logging
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from penstock.core import InputError, is_url, parse_bytes
from penstock.runtime.data.storage.claims import Claim
from penstock.runtime.data.storage.shard_file import BLOCK_BYTES
from penstock.runtime.data.storage.sparse_copy import SparseCopy, marks_path
from penstock.runtime.file_systems import file_system, understood
from penstock.tools import atomic_file, file_lock, partial_path, write_atomically

CACHE_VARIABLE, CACHE_SIZE_VARIABLE = "PENSTOCK_DATA_CACHE", "PENSTOCK_DATA_CACHE_SIZE"
_DEFAULT_BUDGET = "64GiB"
_PAUSES_S = (1.0, 2.0, 4.0, 8.0)
_CHUNK = 2**23

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Place(Protocol):
    """A flat folder of files somewhere."""

    def text(self, name: str) -> str:
        """The content of a small file; FileNotFoundError if there is none."""
        ...

    def local(self, name: str) -> Path:
        """A file on this machine with the content of another."""
        ...

    def shard(self, name: str, size: int) -> "ShardCopy":
        """A file on this machine whose blocks have the content of a large one once they are fetched."""
        ...

    def claim(self) -> Claim:
        """The right to write here, which one at a time has; InputError if that is another."""
        ...

    def write(self, name: str, text: str) -> None:
        """A small file, whole or not at all."""
        ...

    def draft(self, name: str) -> Path:
        """Where to write a large file, before it is put in its place."""
        ...

    def put(self, draft: Path, name: str) -> None:
        """Give a draft its name; the draft is gone."""
        ...

    def names(self) -> list[str]: ...

    def remove(self, name: str) -> None: ...

    def pin(self, version: str) -> None:
        """From now on files are of this version of what lies here: copies of another one are not taken for them."""
        ...


@dataclass(frozen=True, slots=True)
class ShardCopy:
    """A large file on this machine; ``fetch(first, last)`` brings these blocks of it, ``None`` if all are there."""

    path: Path
    fetch: Callable[[int, int], None] | None = None
    may_vanish: bool = False
    """Whether it is a copy, which goes when a cache is full and may be another when it is opened again."""


class DirectoryPlace:
    """A directory that everybody who reads sees."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def text(self, name: str) -> str:
        return (self.directory / name).read_text(encoding="utf-8")

    def local(self, name: str) -> Path:
        return self.directory / name

    def shard(self, name: str, size: int) -> ShardCopy:
        del size
        return ShardCopy(self.directory / name)

    def claim(self) -> Claim:
        return Claim(self.directory, str(self.directory))

    def write(self, name: str, text: str) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        write_atomically(self.directory / name, text, durable=True)

    def draft(self, name: str) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        return partial_path(self.directory / name)

    def put(self, draft: Path, name: str) -> None:
        draft.replace(self.directory / name)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir()) if self.directory.is_dir() else []

    def remove(self, name: str) -> None:
        (self.directory / name).unlink(missing_ok=True)

    def pin(self, version: str) -> None:
        """Nothing is copied."""


class RemotePlace:
    """Files below a URL, copied to a cache of this machine to be read."""

    def __init__(self, url: str, pauses_s: tuple[float, ...] = _PAUSES_S) -> None:
        self._url = url.rstrip("/")
        self._files = file_system(self._url, "packed tokens", "Give a directory or such a URL")
        self._pauses_s = pauses_s
        self._cache = cache_directory() / hashlib.sha256(self._url.encode()).hexdigest()[:20]
        self._budget = parse_bytes(os.environ.get(CACHE_SIZE_VARIABLE, _DEFAULT_BUDGET))
        self._added = self._budget

    def text(self, name: str) -> str:
        return str(self._patiently(name, lambda: self._files.cat_file(f"{self._url}/{name}").decode()))

    def local(self, name: str) -> Path:
        path = self._cache / name
        if not path.exists():
            with file_lock(self._cache / f".{name}.lock"):
                if not path.exists():
                    self._patiently(name, lambda: self._copy(name, path))
                    self._count(path)
        with suppress(OSError):
            os.utime(path)
        return path

    def shard(self, name: str, size: int) -> ShardCopy:
        if size <= BLOCK_BYTES:
            return ShardCopy(self.local(name), may_vanish=True)
        with file_lock(self._cache / f".{name}.lock"):
            copy = SparseCopy(self._cache / name, size, lambda *bounds: self._range(name, *bounds))
        self._make_room(copy.path)
        return ShardCopy(copy.path, copy.fetch, may_vanish=True)

    def claim(self) -> Claim:
        return Claim(self._cache.with_name(f"{self._cache.name}.writing"), self._url)

    def write(self, name: str, text: str) -> None:
        self._files.pipe_file(f"{self._url}/{name}", text.encode())

    def draft(self, name: str) -> Path:
        self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        return partial_path(self._cache / name)

    def put(self, draft: Path, name: str) -> None:
        self._patiently(name, lambda: self._files.put_file(str(draft), f"{self._url}/{name}"))
        draft.unlink()

    def names(self) -> list[str]:
        self._files.invalidate_cache()
        try:
            with understood(self._url):
                return sorted(path.rsplit("/", 1)[-1] for path in self._files.ls(self._url, detail=False))
        except FileNotFoundError:
            return []

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._files.rm_file(f"{self._url}/{name}")

    def pin(self, version: str) -> None:
        self._cache = self._cache.with_name(hashlib.sha256(f"{self._url} {version}".encode()).hexdigest()[:20])

    def _range(self, name: str, start: int, stop: int) -> bytes:
        return bytes(self._patiently(name, lambda: self._files.cat_file(f"{self._url}/{name}", start=start, end=stop)))

    def _copy(self, name: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._files.open(f"{self._url}/{name}", "rb", block_size=_CHUNK) as source, atomic_file(target) as copy:
            shutil.copyfileobj(source, copy, _CHUNK)

    def _patiently(self, name: str, action: Callable[[], T]) -> T:
        """What is not there is told at once; anything else that goes wrong may pass."""
        for pause_s in self._pauses_s:
            try:
                with understood(self._url):
                    return action()
            except (FileNotFoundError, PermissionError):
                raise
            except OSError as problem:
                _log.warning("%s/%s: %s; again in %g s", self._url, name, problem, pause_s)
                time.sleep(pause_s)
        with understood(self._url):
            return action()

    def _count(self, copy: Path) -> None:
        """Make room after every hundredth of the budget, and at first: among ten thousand files that takes a while."""
        self._added += _room(copy)
        if self._added >= self._budget // 100:
            self._added = 0
            self._make_room(copy)

    def _make_room(self, kept: Path) -> None:
        """Open maps outlive their names, so whoever reads a file that goes can read on."""
        others = (path for path in self._cache.parent.glob("*/[!.]*") if path != kept)
        found = [(path.stat().st_mtime, _room(path), path) for path in others]
        excess = sum(size for _, size, _ in found) + _room(kept) - self._budget
        for _, size, path in sorted(found):
            if excess <= 0:
                return
            path.unlink(missing_ok=True)
            marks_path(path).unlink(missing_ok=True)
            excess -= size


def _room(path: Path) -> int:
    """What a file takes, holes not counted."""
    return path.stat().st_blocks * 512


def place_of(location: str | Path) -> Place:
    """The place a person means."""
    text = str(location)
    if not text:
        raise InputError("a place without a name", "a directory or a URL", "Give `.` for the present directory")
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    return RemotePlace(text) if is_url(text) else DirectoryPlace(Path(text))


def cache_directory() -> Path:
    """Where copies are kept; on a cluster a fast disk of each node, by ``PENSTOCK_DATA_CACHE``."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "penstock" / "data"
