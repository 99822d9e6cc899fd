"""Stretches of host memory that copies go into: touched before they are needed, pinned where a device copies.

Memory that is a file below ``/dev/shm`` outlives the process that wrote to it; anonymous memory does not.
"""

import errno
import mmap
import os
import sys
from contextlib import suppress
from pathlib import Path

import torch

from penstock.core import InputError, format_bytes

_GROUP_FILES = ("memory.limit_in_bytes", "memory.usage_in_bytes"), ("memory.max", "memory.current")
"""Limit and use of a control group, in version 1 and in version 2."""
_SPARE = 0.1
"""The share of free memory that is left to others."""


class HostBuffer:
    """So many bytes of host memory as one tensor."""

    def __init__(self, size: int, *, pinned: bool, path: Path | None = None) -> None:
        self.size = size
        self.path = path
        self._registered = 0
        if path is None:
            self.bytes = torch.zeros(size, dtype=torch.uint8, pin_memory=pinned)
        else:
            self.bytes = _mapped(path, size)
            if pinned:
                self._register()

    def leave(self) -> None:
        """Use it no more; views of it must not be used either. A file stays for whoever comes next."""
        if self._registered:
            torch.cuda.cudart().cudaHostUnregister(self._registered)  # type: ignore[no-untyped-call]
            self._registered = 0
        self.bytes = torch.empty(0, dtype=torch.uint8)

    def free(self) -> None:
        """Give it back for good."""
        self.leave()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _register(self) -> None:
        """Pin pages that are not torch's own; without it copies are right, only slower."""
        address = self.bytes.data_ptr()
        if int(torch.cuda.cudart().cudaHostRegister(address, self.size, 0)) == 0:  # type: ignore[no-untyped-call]
            self._registered = address


def open_existing(path: Path, size: int) -> torch.Tensor:
    """The bytes of a stretch that somebody has written; a ValueError if it has another length."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(handle).st_size < size:
            raise ValueError(f"{path.name} is shorter than its record says")
        if not size:
            return torch.empty(0, dtype=torch.uint8)
        return torch.frombuffer(mmap.mmap(handle, size, flags=mmap.MAP_PRIVATE), dtype=torch.uint8)
    finally:
        os.close(handle)


def check_room(directory: Path, needed: int) -> None:
    """Refuse to begin what would fill a memory file system up."""
    found = os.statvfs(directory)
    free = min(found.f_bavail * found.f_frsize, available_bytes())
    if needed > (1 - _SPARE) * free:
        raise InputError(
            f"snapshots of {format_bytes(needed)} in {directory}, where {format_bytes(free)} are free",
            f"at most {1 - _SPARE:.0%} of that",
            "Enlarge it (mount -o remount,size=… /dev/shm; --shm-size of a container), or give another memory_dir",
        )


def available_bytes() -> int:
    """Host memory that could be used right now, as the kernel estimates it, within the limit of a control group."""
    return min(_of_the_machine(), _of_the_group())


def _of_the_group() -> int:
    """What a limit leaves, where there is one: files in memory count like any other memory."""
    left = sys.maxsize
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            version_1 = "memory" in controllers.split(",")
            if version_1 or not controllers:
                place = Path(f"/sys/fs/cgroup{'/memory' if version_1 else ''}{path}")
                names = _GROUP_FILES[0 if version_1 else 1]
                with suppress(OSError, ValueError):
                    limit, used = (int((place / name).read_text()) for name in names)
                    left = min(left, max(limit - used, 0))
    return left


def _of_the_machine() -> int:
    with suppress(OSError, ValueError), open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _mapped(path: Path, size: int) -> torch.Tensor:
    """A new file, its pages taken at once: a memory file system that is full says so here, and not by a signal."""
    if not size:
        path.touch(0o600)
        return torch.empty(0, dtype=torch.uint8)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(handle, 0, size)
        return torch.frombuffer(mmap.mmap(handle, size), dtype=torch.uint8)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise OSError(error.errno or errno.ENOSPC, error.strerror, str(path)) from None
    finally:
        os.close(handle)
