"""The files of a job: what lies in the directory it saves to, listed and read on behalf of whoever may see the job.

Names come from people and from jobs, so none is trusted. A path is opened part by part from the job's own directory,
no part may be a link, and only plain files are read, as the user whose jobs the tenant's are.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import quote

from penstock.control.state.records import JobRecord
from penstock.core import InputError, clean_text, first_directory, is_url
from penstock.tools import UnixUser, acting_as, open_regular
from penstock.wire import ConflictError, FileList, FileView, MissingError, stamp

_MOST_LISTED = 10_000
_DEEPEST = 32
_CHUNK = 1 << 20
_LONGEST_PATH = 4096
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that is being read; it is read once, and closed by that or by :meth:`close`."""

    name: str
    size: int
    chunks: Iterator[bytes]
    close: Callable[[], None]

    @property
    def headers(self) -> dict[str, str]:
        """How an answer over HTTP that carries it is marked: a file to keep, never a page."""
        return {
            "Content-Length": str(self.size),
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(self.name, safe='')}",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlaces:
    """Where files of jobs may be looked for.

    ``root`` has a directory for each job. With ``elsewhere`` also in the directories that job files name, as jobs run
    on this machine anyway; never inside of ``closed``, where the server keeps its own.
    """

    root: Path
    user_of: Callable[[str], UnixUser | None] = lambda _: None
    elsewhere: bool = False
    closed: tuple[Path, ...] = ()
    memory_of: Callable[[str], Path | None] = lambda _: None
    """Where snapshots of a run stay in this machine's memory, if they do."""

    def of(self, record: JobRecord) -> Path:
        """The directory of a job; raises where it is not one that this server may look into."""
        named = record.recipe.checkpoint_dir
        if is_url(named):
            raise ConflictError(
                f"job {record.id!r} saves to {named}",
                "a directory that this server sees",
                "Use the tools of that store",
            )
        place = Path(named)
        if self.is_own(record):
            return place
        resolved = place.resolve()
        if not self.elsewhere or any(_overlap(resolved, closed.resolve()) for closed in (self.root, *self.closed)):
            raise ConflictError(
                f"job {record.id!r} saves to {place}, where this server does not look", f"a directory in {self.root}",
                "Look there yourself",
            )  # fmt: skip
        return place

    def is_own(self, record: JobRecord) -> bool:
        """Whether its directory was made for this job alone."""
        return Path(first_directory(record.recipe.checkpoint_dir)) == self.root / record.id

    @contextmanager
    def opened(self, record: JobRecord) -> Iterator[tuple[Path, int | None]]:
        """The directory of a job with a descriptor of it, as its user; none if nothing has been saved."""
        place = self.of(record)
        with acting_as(self.user_of(record.job.tenant)):
            handle = None
            try:
                handle = os.open(place, _DIRECTORY | (os.O_NOFOLLOW if self.is_own(record) else 0))
            except FileNotFoundError:
                pass
            except OSError as error:
                raise ConflictError(
                    f"the directory {place} of job {record.id!r} cannot be opened: {error.strerror}",
                    "a directory that the job's user may read", "Change its permissions",
                ) from None  # fmt: skip
            try:
                yield place, handle
            finally:
                if handle is not None:
                    os.close(handle)


def _overlap(one: Path, other: Path) -> bool:
    return one == other or other in one.parents or one in other.parents


def parts_of(path: str) -> tuple[str, ...]:
    """The parts of a path among a job's files; raises where it leads elsewhere."""
    parts = PurePosixPath(path).parts
    if len(path) > _LONGEST_PATH or path.startswith("/") or ".." in parts or "\0" in path:
        raise InputError(
            f"the path {clean_text(path)[:200]!r}", "a path from the job's own directory, without ..",
            "penstock files lists what there is",
        )  # fmt: skip
    return parts


def list_files(places: FilePlaces, record: JobRecord, path: str = "") -> FileList:
    """What lies below a path, in order of name; of a file itself."""
    parts = parts_of(path)
    found: list[FileView] = []
    with places.opened(record) as (place, handle):
        truncated = handle is not None and _find(handle, parts, record, found)
    return FileList(place=str(place), files=found, truncated=truncated)


def open_file(places: FilePlaces, record: JobRecord, path: str) -> OpenFile:
    """A file to read, as long as it is now."""
    parts = parts_of(path)
    with places.opened(record) as (_, handle):
        if handle is None or not parts:
            raise _missing(record, path)
        with _directory(handle, parts[:-1], record, path) as parent:
            try:
                file = open_regular(parts[-1], directory=parent)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise _not_opened(parent, parts[-1], record, path) from None
                raise InputError(
                    f"{path!r} is not a plain file", "a file", f"penstock files {record.id} {path} lists it"
                ) from None
    size = os.fstat(file.fileno()).st_size
    return OpenFile(parts[-1], size, _chunks(file, size), file.close)


def _find(handle: int, parts: Sequence[str], record: JobRecord, found: list[FileView]) -> bool:
    """Add what lies at a path; True if some of it was left out."""
    path = "/".join(parts)
    if not parts:
        return _find_below(handle, "", found)
    with _directory(handle, parts[:-1], record, path) as parent:
        try:
            state = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
        except OSError:
            raise _missing(record, path) from None
        if not stat.S_ISDIR(state.st_mode):
            found.append(_view(path, state))
            return False
        with _directory(parent, parts[-1:], record, path) as directory:
            return _find_below(directory, path, found)


def _find_below(handle: int, path: str, found: list[FileView], depth: int = 1) -> bool:
    """Add everything below a directory; True if some was left out. Links are named and not followed.

    Each level holds a descriptor, so levels are bounded as entries are.
    """
    with os.scandir(handle) as entries:
        names = sorted(entry.name for entry in islice(entries, _MOST_LISTED + 1))
    folders = []
    for name in names:
        if len(found) == _MOST_LISTED:
            return True
        with suppress(OSError):
            state = os.stat(name, dir_fd=handle, follow_symlinks=False)
            found.append(_view(f"{path}/{name}" if path else name, state))
            folders += [name] if stat.S_ISDIR(state.st_mode) else []
    if depth == _DEEPEST:
        return bool(folders)
    truncated = False
    for name in folders:
        with suppress(OSError):
            inner = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            try:
                truncated |= _find_below(inner, f"{path}/{name}" if path else name, found, depth + 1)
            finally:
                os.close(inner)
    return truncated


def _view(path: str, state: os.stat_result) -> FileView:
    mode = state.st_mode
    kind = "directory" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "file"
    size = state.st_size if stat.S_ISREG(mode) else 0
    return FileView.model_validate(
        {"path": clean_text(path), "kind": kind, "bytes": size, "changed_at": stamp(state.st_mtime)}
    )


@contextmanager
def _directory(handle: int, parts: Sequence[str], record: JobRecord, path: str) -> Iterator[int]:
    """The directory that these parts lead to; a link among them leads nowhere."""
    opened = os.dup(handle)
    try:
        for part in parts:
            try:
                inner = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=opened)
            except OSError:
                raise _not_opened(opened, part, record, path) from None
            os.close(opened)
            opened = inner
        yield opened
    finally:
        os.close(opened)


def _not_opened(parent: int, name: str, record: JobRecord, path: str) -> InputError:
    """Why a part of a path could not be opened."""
    with suppress(OSError):
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            return InputError(
                f"{name!r} in the path {path!r} is a link", "files that lie in the job's own directory",
                "Name what it points to",
            )  # fmt: skip
    return _missing(record, path)


def _missing(record: JobRecord, path: str) -> MissingError:
    return MissingError(
        f"Job {record.id!r} has no file {clean_text(path)[:200]!r}", "a path that `penstock files` lists",
        f"penstock files {record.id}",
    )  # fmt: skip


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    with file:
        left = size
        while left and (chunk := file.read(min(_CHUNK, left))):
            left -= len(chunk)
            yield chunk
