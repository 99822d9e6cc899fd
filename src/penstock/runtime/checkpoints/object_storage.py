"""Checkpoints below a URL, where every machine of a cluster finds them: buckets and whatever else fsspec reaches.

Such places know no rename and no sync. So a checkpoint is written under its own name, read back once for its
checksums, and named by a manifest in the end; a step that is written again while its manifest stands gets a directory
beside the old one, and the manifest changes over in one write. To be read, the files are copied to this machine.
"""

import shutil
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from os import PathLike
from pathlib import Path

from torch.distributed.checkpoint._fsspec_filesystem import FileSystem, FsspecWriter
from torch.distributed.checkpoint.storage import StorageWriter

from penstock.runtime.checkpoints.manifest import FileSum, Manifest, directory_name, sum_of_stream
from penstock.runtime.checkpoints.storage import EXTRAS, CheckpointDraft
from penstock.runtime.file_systems import file_system

_CHUNK = 2**23
_AGAIN = ".1"
"""Behind the name of a directory whose step is written again while the one before it still counts."""


class ObjectStorage:
    """The checkpoints of one job below one URL."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._files = file_system(self._url, "checkpoints", "Change checkpoint.dir")
        self._fetched: tuple[Manifest, Path] | None = None

    def draft(self, step: int) -> CheckpointDraft:
        name = directory_name(step)
        with suppress(OSError, ValueError, TypeError, KeyError):
            taken = self.read_manifest(f"{name}.json").directory
            name = name + _AGAIN if taken == name else name
        return CheckpointDraft(step=step, place=f"{self._url}/{name}", path=f"{self._url}/{name}")

    def writer(self, draft: CheckpointDraft) -> StorageWriter:
        return _Writer(draft.place)

    def commit(self, draft: CheckpointDraft, extras: bytes) -> None:
        self._files.pipe_file(f"{draft.place}/{EXTRAS}", extras)
        files = tuple(self._sum(path) for path in sorted(self._names(draft.place)))
        name = draft.path.rsplit("/", 1)[1]
        manifest = Manifest(step=draft.step, directory=name, made_at=time.time(), files=files)
        self._files.pipe_file(f"{self._url}/{directory_name(draft.step)}.json", manifest.to_text().encode())
        self._remove_unnamed()

    def verify(self, draft: CheckpointDraft) -> None:
        """Nothing more: what is in the manifest was read back from the store when it was committed."""

    def discard(self, draft: CheckpointDraft) -> None:
        with suppress(OSError):
            self._remove(draft.place)

    def manifests(self) -> list[str]:
        names = (path.rsplit("/", 1)[1] for path in self._names(self._url))
        return sorted((name for name in names if name.startswith("step-") and name.endswith(".json")), reverse=True)

    def read_manifest(self, name: str) -> Manifest:
        return Manifest.parse(self._files.cat_file(f"{self._url}/{name}").decode())

    def fetch(self, manifest: Manifest) -> Path:
        if self._fetched is not None and self._fetched[0] == manifest:
            return self._fetched[1]
        self.release()
        place = Path(tempfile.mkdtemp(prefix="penstock-checkpoint-"))
        self._fetched = (manifest, place)
        for expected in manifest.files:
            self._copy(f"{self._url}/{manifest.directory}/{expected.name}", place / expected.name)
        return place

    def release(self) -> None:
        if self._fetched is not None:
            shutil.rmtree(self._fetched[1], ignore_errors=True)
            self._fetched = None

    def sweep(self) -> None:
        with suppress(OSError):
            self._remove_unnamed()

    def keep_newest(self, count: int) -> None:
        self._drop(self.manifests()[count:])

    def drop_after(self, step: int) -> None:
        self._drop(name for name in self.manifests() if name > f"{directory_name(step)}.json")

    def _drop(self, manifests: Iterable[str]) -> None:
        for name in manifests:
            with suppress(OSError):
                self._remove(f"{self._url}/{name}")
        self._remove_unnamed()

    def _remove_unnamed(self) -> None:
        """Directories that no manifest names: drafts that came to nothing, and those that were replaced."""
        named = {directory for name in self.manifests() for directory in self._named_by(name)}
        for path in self._names(self._url):
            name = path.rsplit("/", 1)[1]
            if name.startswith("step-") and not name.endswith(".json") and name not in named:
                self._remove(path)

    def _named_by(self, manifest: str) -> set[str]:
        """One that cannot be read may mean any directory of its step."""
        step = manifest.removesuffix(".json")
        try:
            return {self.read_manifest(manifest).directory}
        except (OSError, ValueError, TypeError, KeyError):
            return {step, step + _AGAIN}

    def _names(self, place: str) -> list[str]:
        self._files.invalidate_cache()
        try:
            found = self._files.ls(place, detail=False)
        except FileNotFoundError:
            return []
        return [path.rstrip("/") for path in found if path.rstrip("/") != self._files._strip_protocol(place)]

    def _sum(self, path: str) -> FileSum:
        with self._files.open(path, "rb", block_size=_CHUNK) as file:
            return sum_of_stream(path.rsplit("/", 1)[1], file)

    def _copy(self, source: str, target: Path) -> None:
        with self._files.open(source, "rb", block_size=_CHUNK) as file, target.open("wb") as copy:
            shutil.copyfileobj(file, copy, _CHUNK)

    def _remove(self, place: str) -> None:
        self._files.invalidate_cache()
        with suppress(FileNotFoundError):
            self._files.rm(place, recursive=True)


class _Files(FileSystem):
    def mkdir(self, path: str | PathLike[str]) -> None:
        """Where there are directories. A store of keys has none, and would make a bucket of a typing mistake."""
        assert self.fs is not None
        if self.fs.root_marker:
            super().mkdir(path)


class _Writer(FsspecWriter):
    def __init__(self, place: str) -> None:
        super().__init__(place, sync_files=False, overwrite=True)
        files = _Files()
        self.path = files.init_path(place)
        self.fs = files  # type: ignore[assignment]  # torch calls two classes FileSystem
