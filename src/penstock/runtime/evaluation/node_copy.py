"""A checkpoint on the machine that evaluates it, fetched once however many of its devices do so.

After Acme's observation (NSDI'24, section 4) that eight workers of a node which load one model over the network slow
each other down: the first one copies it into memory that all of them read, the others wait for that. A checkpoint on a
disk of the machine itself is used where it lies, because its second reader finds it in memory anyway.
"""

import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from penstock.core import InputError, is_url, require
from penstock.tools import atomic_directory, file_lock

_SHARED_MEMORY = Path("/dev/shm")
_ROOM = 1.1
"""What has to be free for a copy, as a multiple of its size."""
_FORGOTTEN_S = 86_400.0
_OVER_A_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "9p", "afs"}
)


class NodeCopy:
    """The copy of one checkpoint on this node; ``users`` workers will read it, and the last one removes it."""

    def __init__(self, source: str, key: str, *, users: int) -> None:
        self._source = source
        self._users = users
        self._folder = _own(_roomy(source) / f"penstock-{os.getuid()}") / key

    def fetch(self) -> Path:
        """Where it lies, once it is there whole."""
        name = self._source.rstrip("/").rpartition("/")[2]
        with file_lock(self._lock):
            _remove_forgotten(self._folder.parent)
            if not (self._folder / name).exists():
                shutil.rmtree(self._folder, ignore_errors=True)
                with atomic_directory(self._folder) as partial:
                    _fetch(self._source, partial / name)
        return self._folder / name

    def release(self) -> None:
        """This worker has read it; what nobody needs any more is removed."""
        with file_lock(self._lock):
            if not self._folder.is_dir():
                return
            (self._folder / f".read-by-{os.getpid()}").touch()
            if len(list(self._folder.glob(".read-by-*"))) >= self._users:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._lock.unlink(missing_ok=True)

    @property
    def _lock(self) -> Path:
        return self._folder.with_name(f"{self._folder.name}.lock")


def is_far(source: str) -> bool:
    """Whether reading it goes over a network: a URL, or a path on a file system of another machine."""
    return is_url(source) or _file_system(Path(source)) in _OVER_A_NETWORK


def _own(folder: Path) -> Path:
    """A directory of this user alone: what others can write nobody should load."""
    folder.mkdir(exist_ok=True, mode=0o700)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise InputError(f"{folder} is not this user's alone", "a directory that nobody else can use", "Remove it")
    return folder


def _remove_forgotten(folder: Path) -> None:
    """Copies whose workers were killed before they had read them."""
    for each in folder.iterdir():
        with suppress(OSError):
            if time.time() - each.stat().st_mtime > _FORGOTTEN_S:
                shutil.rmtree(each) if each.is_dir() else each.unlink()


def _file_system(path: Path) -> str:
    """What kind of file system a path is on; nothing where that cannot be known."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return ""
    real = os.path.realpath(path)
    holding = [(point, kind) for _, point, kind, *_ in mounts if f"{real}/".startswith(f"{point.rstrip('/')}/")]
    return max(holding, key=lambda each: len(each[0]), default=("", ""))[1]


def _roomy(source: str) -> Path:
    """Memory that all processes share where the copy fits into it, else a directory for temporary files."""
    size = 0 if is_url(source) else _bytes(Path(source))
    if _SHARED_MEMORY.is_dir() and size and shutil.disk_usage(_SHARED_MEMORY).free > _ROOM * size:
        return _SHARED_MEMORY
    return Path(tempfile.gettempdir())


def _bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


def _fetch(source: str, target: Path) -> None:
    if is_url(source):
        require("fsspec", extra="s3", why="a checkpoint at a URL")
        import fsspec

        files, path = fsspec.core.url_to_fs(source)
        files.get(path, str(target), recursive=True)
    elif Path(source).is_dir():
        shutil.copytree(source, target)
    elif Path(source).is_file():
        shutil.copyfile(source, target)
    else:
        raise InputError(f"there is no checkpoint {source}", "one that is still kept", "Keep more of them")
