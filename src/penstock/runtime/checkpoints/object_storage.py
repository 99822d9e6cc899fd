"""Checkpoints below a URL, where every machine of a cluster finds them: buckets and whatever else fsspec reaches.

Such places know no rename and no sync. So a checkpoint is written under its own name, named by a manifest and read back
for its checksums; a step that is written again while its manifest stands gets a directory
beside the old one, and the manifest changes over in one write. To be read, the files are copied to this machine.
"""

import errno
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from penstock.runtime.checkpoints.manifest import (
    UNREADABLE,
    FileSum,
    Manifest,
    directory_name,
    sum_of_stream,
    write_summed,
)
from penstock.runtime.checkpoints.saved_state import SavedState, UnreadableCheckpointError
from penstock.runtime.checkpoints.storage import CheckpointDraft
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

    def write(self, draft: CheckpointDraft, name: str, content: Iterable[memoryview]) -> FileSum:
        """A store of keys has no directories, and would make a bucket of a mistyped name."""
        if self._files.root_marker:
            self._files.makedirs(draft.place, exist_ok=True)
        with self._files.open(f"{draft.place}/{name}", "wb", block_size=_CHUNK) as file:
            return write_summed(file, name, content)

    def commit(self, draft: CheckpointDraft, files: Sequence[FileSum]) -> None:
        name = draft.path.rsplit("/", 1)[1]
        manifest = Manifest(step=draft.step, directory=name, made_at=time.time(), files=tuple(files))
        try:
            self._read_back(manifest)
        except (ValueError, UnreadableCheckpointError) as difference:
            raise OSError(errno.EIO, f"what was written cannot be read back: {difference}", draft.path) from None
        self._write_manifest(replace(manifest, verified_at=time.time()))
        self._remove_unnamed()

    def verify(self, draft: CheckpointDraft) -> None:
        """Nothing more: what the manifest names was read back from the store before the manifest was written."""

    def discard(self, draft: CheckpointDraft) -> None:
        with suppress(OSError):
            self._remove(draft.place)

    def manifests(self) -> list[str]:
        names = (path.rsplit("/", 1)[1] for path in self._names(self._url))
        return sorted((name for name in names if name.startswith("step-") and name.endswith(".json")), reverse=True)

    def read_manifest(self, name: str) -> Manifest:
        return Manifest.parse(self._files.cat_file(f"{self._url}/{name}").decode())

    def set_aside(self, manifest: str) -> None:
        """Its directory stays where it is: names in a store cannot be changed, and copies would cost hours."""
        self._files.copy(f"{self._url}/{manifest}", f"{self._url}/{UNREADABLE}{manifest}")
        self._remove(f"{self._url}/{manifest}")

    def fetch(self, manifest: Manifest) -> Path:
        if self._fetched is not None and self._fetched[0] == manifest:
            return self._fetched[1]
        self.release()
        place = Path(tempfile.mkdtemp(prefix="penstock-checkpoint-"))
        self._fetched = (manifest, place)
        self._remove_fetched = weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        for expected in manifest.files:
            self._copy(f"{self._url}/{manifest.directory}/{expected.name}", place / expected.name)
        return place

    def release(self) -> None:
        if self._fetched is not None:
            self._remove_fetched()
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
        aside = {name for name in map(_last, self._names(self._url)) if fnmatch(name, f"{UNREADABLE}*.json")}
        named = {directory for name in {*self.manifests(), *aside} for directory in self._named_by(name)}
        for path in self._names(self._url):
            name = path.rsplit("/", 1)[1]
            if name.startswith("step-") and not name.endswith(".json") and name not in named:
                self._remove(path)

    def _named_by(self, manifest: str) -> set[str]:
        """One that cannot be read may mean any directory of its step."""
        step = manifest.removeprefix(UNREADABLE).removesuffix(".json")
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

    def _read_back(self, manifest: Manifest) -> None:
        place = f"{self._url}/{manifest.directory}"
        for expected in manifest.files:
            with self._files.open(f"{place}/{expected.name}", "rb", block_size=_CHUNK) as file:
                if sum_of_stream(expected.name, file) != expected:
                    raise ValueError(f"{expected.name} differs from what was written")
        SavedState.read(manifest.directory, manifest.sizes, lambda name: bytes(self._files.cat_file(f"{place}/{name}")))

    def _write_manifest(self, manifest: Manifest) -> None:
        self._files.pipe_file(f"{self._url}/{directory_name(manifest.step)}.json", manifest.to_text().encode())

    def _copy(self, source: str, target: Path) -> None:
        with self._files.open(source, "rb", block_size=_CHUNK) as file, target.open("wb") as copy:
            shutil.copyfileobj(file, copy, _CHUNK)

    def _remove(self, place: str) -> None:
        self._files.invalidate_cache()
        with suppress(FileNotFoundError):
            self._files.rm(place, recursive=True)


def _last(path: str) -> str:
    return path.rsplit("/", 1)[1]
