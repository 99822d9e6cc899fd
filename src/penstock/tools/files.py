"""Files and folders that appear whole or not at all.

Every file somebody else may read while it is written (a manifest, an address, a report, a cached answer) is written
beside its target and renamed onto it, so that a reader, a crash or a full disk meets the old content or all of the new
one. ``durable`` also survives a power cut: the content is flushed before the rename, the directory after it.

What a user or a job may have put somewhere is opened by :func:`open_regular`, which never waits, and removed by
:func:`remove_tree`, however deep it is.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_LEAST_FREE = 64 << 10
"""Bytes that a small transaction of SQLite needs, with its shared memory."""
PARTIAL_SUFFIX = ".partial"
"""How unfinished files end: ``.NAME.PROCESS-RANDOM.partial``, so that one left by a killed process can be found."""


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_regular(path: Path | str, *, directory: int | None = None, follow: bool = False) -> BinaryIO:
    """Open a file for reading that a job may have made; an OSError for a pipe, a device, a directory or a link.

    Opening a pipe would wait for a writer. A link would lead anywhere; with ``follow`` it may.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(path, flags, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(handle, "rb")


def read_regular(path: Path | str, most: int, offset: int = 0, *, follow: bool = False) -> bytes:
    """Up to ``most`` bytes of a file that a job may have made, from ``offset`` on."""
    with open_regular(path, follow=follow) as file:
        file.seek(offset)
        return file.read(most)


def remove_tree(path: Path) -> None:
    """Remove a directory that a job has filled, however deep: nothing here recurses or follows a link.

    What cannot be removed is left; the first such error is raised once everything else is gone.
    """
    trouble: list[OSError] = []
    here = os.open(path, _FOLDER)
    above: list[tuple[tuple[int, int], str, list[str]]] = []
    names = os.listdir(here)
    try:
        while names or above:
            if is_empty := not names:
                place, name, names = above.pop()
                here = _moved(here, "..")
                if _place(here) != place:
                    raise OSError(errno.ESTALE, "moved while it was removed", str(path))
            else:
                name = names.pop()
            try:
                if is_empty:
                    os.rmdir(name, dir_fd=here)
                elif stat.S_ISDIR(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
                    place, here = _place(here), _moved(here, name)
                    above.append((place, name, names))
                    names = []
                    names = os.listdir(here)
                else:
                    os.unlink(name, dir_fd=here)
            except OSError as error:
                trouble.append(error)
    finally:
        os.close(here)
    if trouble:
        raise trouble[0]
    os.rmdir(path)


def _moved(here: int, name: str) -> int:
    """Open a directory beside the one that is open, which is closed."""
    there = os.open(name, _FOLDER, dir_fd=here)
    os.close(here)
    return there


def _place(directory: int) -> tuple[int, int]:
    found = os.fstat(directory)
    return found.st_dev, found.st_ino


def write_atomically(path: Path, content: str | bytes, *, durable: bool = False, mode: int = 0o666) -> int:
    """Put ``content`` (text as UTF-8) into ``path`` in one step and return its size in bytes.

    ``mode`` is the new file's, less the process's umask; 0o600 keeps a secret from the first byte on.
    """
    data = content.encode() if isinstance(content, str) else content
    with atomic_file(path, durable=durable, mode=mode) as file:
        file.write(data)
    return len(data)


def create_private(path: Path) -> None:
    """Make an empty file for this user alone, unless there is one; what cannot be made is left to who opens it."""
    with suppress(OSError):
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def is_disk_full(path: Path) -> bool:
    """Return whether the file system of ``path`` has no room for one more small file: no bytes or no inodes."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return False
    privileged = os.geteuid() == 0
    blocks, inodes = (disk.f_bfree, disk.f_ffree) if privileged else (disk.f_bavail, disk.f_favail)
    return blocks * disk.f_frsize < _LEAST_FREE or (disk.f_files > 0 and inodes == 0)


@contextmanager
def atomic_file(path: Path, *, durable: bool = False, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A binary file to write to, which takes the place of ``path`` when the block ends without an error."""
    partial = partial_path(path)
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            yield file
            if durable:
                sync_file(file)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``path`` when the block ends without an error; ``path`` must be free or empty."""
    partial = partial_path(path)
    partial.mkdir()
    try:
        yield partial
        partial.rename(path)
    except BaseException:
        import shutil

        shutil.rmtree(partial, ignore_errors=True)
        raise


def partial_path(path: Path) -> Path:
    """A name beside ``path`` that no other process or thread uses."""
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}{PARTIAL_SUFFIX}")


def sync_file(file: BinaryIO) -> None:
    """Make what was written to an open file durable."""
    file.flush()
    os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Make new names in a directory durable."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
