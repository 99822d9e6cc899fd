"""The files of a job: what lies in the directory it saves to, listed and read on behalf of whoever may see the job.

Names come from people and from jobs, so none is trusted. A path is opened part by part from the job's own directory,
no part may be a link, and only plain files are read, as the user whose jobs the tenant's are.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from penstock.control.state.records import JobRecord
from penstock.core import InputError, clean_text, first_directory, is_url
from penstock.tools import UnixUser, acting_as
from penstock.wire import ConflictError, FileList, FileView, MissingError, stamp

_MOST_LISTED = 10_000
_CHUNK = 1 << 20
_LONGEST_PATH = 4096


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that is being read; it is read once, and closed by that."""

    name: str
    size: int
    chunks: Iterator[bytes]

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
            with suppress(FileNotFoundError):
                flags = os.O_NOFOLLOW if self.is_own(record) else 0
                handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags)
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
    with places.opened(record) as (place, handle):
        found = [] if handle is None else _found(handle, parts, record)
    return FileList(place=str(place), files=found[:_MOST_LISTED], truncated=len(found) > _MOST_LISTED)


def open_file(places: FilePlaces, record: JobRecord, path: str) -> OpenFile:
    """A file to read, as long as it is now."""
    parts = parts_of(path)
    with places.opened(record) as (_, handle):
        if handle is None or not parts:
            raise _missing(record, path)
        with _directory(handle, parts[:-1], record, path) as parent:
            file = _open(parent, parts[-1], os.O_RDONLY | os.O_NONBLOCK, record, path)
    size = os.fstat(file).st_size
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise InputError(f"{path!r} is not a plain file", "a file", f"penstock files {record.id} {path} lists it")
    return OpenFile(parts[-1], size, _chunks(file, size))


def _found(handle: int, parts: Sequence[str], record: JobRecord) -> list[FileView]:
    path = "/".join(parts)
    if not parts:
        return list(_below(handle, ""))
    with _directory(handle, parts[:-1], record, path) as parent:
        try:
            state = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
        except OSError:
            raise _missing(record, path) from None
        if not stat.S_ISDIR(state.st_mode):
            return [_view(path, state)]
        with _directory(parent, parts[-1:], record, path) as directory:
            return list(_below(directory, path))


def _below(handle: int, path: str) -> Iterator[FileView]:
    """Everything below a directory; links are named and not followed."""
    listed = 0
    for folder, folders, files, inside in os.fwalk(".", dir_fd=handle, follow_symlinks=False):
        folders.sort()
        here = "/".join(part for part in (path, *PurePosixPath(folder).parts) if part)
        for name in sorted((*folders, *files)):
            with suppress(OSError):
                yield _view(f"{here}/{name}" if here else name, os.stat(name, dir_fd=inside, follow_symlinks=False))
                listed += 1
            if listed > _MOST_LISTED:
                return


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
            inner = _open(opened, part, os.O_RDONLY | os.O_DIRECTORY, record, path)
            os.close(opened)
            opened = inner
        yield opened
    finally:
        os.close(opened)


def _open(parent: int, name: str, flags: int, record: JobRecord, path: str) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        with suppress(OSError):
            if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                raise InputError(
                    f"{name!r} in the path {path!r} is a link", "files that lie in the job's own directory",
                    "Name what it points to",
                ) from None  # fmt: skip
        raise _missing(record, path) from None


def _missing(record: JobRecord, path: str) -> MissingError:
    return MissingError(
        f"Job {record.id!r} has no file {clean_text(path)[:200]!r}", "a path that `penstock files` lists",
        f"penstock files {record.id}",
    )  # fmt: skip


def _chunks(file: int, size: int) -> Iterator[bytes]:
    with os.fdopen(file, "rb") as stream:
        left = size
        while left and (chunk := stream.read(min(_CHUNK, left))):
            left -= len(chunk)
            yield chunk
