"""Where checkpoints lie, and how one becomes whole there: a directory of a file system, or below a URL.

A storage holds directories of files and one manifest for each, written last: what has no manifest is no checkpoint.
"""

import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.storage import StorageWriter

from penstock.core import is_url
from penstock.runtime.checkpoints.manifest import Manifest, directory_name, sum_of
from penstock.tools import sync_directory, sync_file, write_atomically

EXTRAS = "extras.pt"
"""The file with everything that is not a tensor."""
_MANIFESTS, _DRAFTS, _DIRECTORIES = "step-*.json", ".step-*.partial", f"step-{'[0-9]' * 10}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A checkpoint that is being written: to ``place``, until it is whole and known as ``path``."""

    step: int
    place: str
    path: str


class CheckpointStorage(Protocol):
    """What :class:`~penstock.runtime.checkpoints.checkpoint.Checkpoints` needs of a place."""

    def draft(self, step: int) -> Draft:
        """Where to write a step; members that write one together come to the same answer."""
        ...

    def writer(self, draft: Draft) -> StorageWriter:
        """What torch writes tensors with."""
        ...

    def commit(self, draft: Draft, extras: bytes) -> None:
        """Make a draft whose tensors are written a checkpoint."""
        ...

    def discard(self, draft: Draft) -> None:
        """Make room again; a checkpoint of the same step that is whole stays."""
        ...

    def manifests(self) -> list[str]:
        """The names of what claims to be a checkpoint, the newest first."""
        ...

    def read_manifest(self, name: str) -> Manifest: ...

    def fetch(self, manifest: Manifest) -> Path:
        """A directory of this machine with the files of a checkpoint."""
        ...

    def release(self) -> None:
        """What was fetched is not needed any more."""
        ...

    def sweep(self) -> None:
        """Remove what an earlier run did not finish writing."""
        ...

    def keep_newest(self, count: int) -> None:
        """Remove all but the newest checkpoints."""
        ...


def open_storage(location: str | Path) -> CheckpointStorage:
    """The storage of a directory, or of a URL that fsspec knows (``s3://bucket/jobs/7``)."""
    text = str(location)
    if text.startswith("file://"):
        return DirectoryStorage(Path(text.removeprefix("file://")))
    if not is_url(text):
        return DirectoryStorage(Path(location))
    from penstock.runtime.checkpoints.object_storage import ObjectStorage

    return ObjectStorage(text)


class DirectoryStorage:
    """Checkpoints in a directory: written to a hidden one, synced, renamed, and named by a manifest after that."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def draft(self, step: int) -> Draft:
        target = self.directory / directory_name(step)
        return Draft(step=step, place=str(self.directory / f".{target.name}.partial"), path=str(target))

    def writer(self, draft: Draft) -> StorageWriter:
        return FileSystemWriter(Path(draft.place), sync_files=True, overwrite=True)

    def commit(self, draft: Draft, extras: bytes) -> None:
        partial, target = Path(draft.place), Path(draft.path)
        with (partial / EXTRAS).open("wb") as file:
            file.write(extras)
            sync_file(file)
        files = tuple(sum_of(path) for path in sorted(partial.iterdir()))
        sync_directory(partial)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
        sync_directory(self.directory)
        manifest = Manifest(step=draft.step, directory=target.name, made_at=time.time(), files=files)
        write_atomically(target.with_suffix(".json"), manifest.to_text(), durable=True)

    def discard(self, draft: Draft) -> None:
        _remove(Path(draft.place))
        if not Path(draft.path).with_suffix(".json").exists():
            _remove(Path(draft.path))

    def manifests(self) -> list[str]:
        return sorted((path.name for path in self.directory.glob(_MANIFESTS)), reverse=True)

    def read_manifest(self, name: str) -> Manifest:
        return Manifest.parse((self.directory / name).read_text())

    def fetch(self, manifest: Manifest) -> Path:
        return self.directory / manifest.directory

    def release(self) -> None:
        """Nothing was copied."""

    def sweep(self) -> None:
        for draft in self.directory.glob(_DRAFTS):
            _remove(draft)
        for directory in self.directory.glob(_DIRECTORIES):
            if not directory.with_suffix(".json").exists():
                _remove(directory)

    def keep_newest(self, count: int) -> None:
        for name in self.manifests()[count:]:
            path = self.directory / name
            path.unlink(missing_ok=True)
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
