"""Files and folders that appear whole or not at all.

Every file somebody else may read while it is written (a manifest, an address, a report, a cached answer) is written
beside its target and renamed onto it, so that a reader, a crash or a full disk meets the old content or all of the new
one. ``durable`` also survives a power cut: the content is flushed before the rename, the directory after it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_LEAST_FREE = 64 << 10
"""Bytes that a small transaction of SQLite needs, with its shared memory."""
PARTIAL_SUFFIX = ".partial"
"""How unfinished files end: ``.NAME.PROCESS-RANDOM.partial``, so that one left by a killed process can be found."""


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
