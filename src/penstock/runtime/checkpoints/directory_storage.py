"""Checkpoints in a directory that all who write and read them see."""

import errno
import fnmatch
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from penstock.runtime.checkpoints.manifest import (
    UNREADABLE,
    FileSum,
    Manifest,
    directory_name,
    forget_cached,
    write_summed,
)
from penstock.runtime.checkpoints.saved_state import SavedState, UnreadableCheckpointError
from penstock.runtime.checkpoints.storage import CheckpointDraft
from penstock.tools import sync_directory, sync_file, write_atomically

_MANIFESTS, _DRAFTS, _DIRECTORIES = "step-*.json", ".step-*.partial", f"step-{'[0-9]' * 10}"


class DirectoryStorage:
    """Checkpoints in a directory: written to a hidden one, synced, renamed, and named by a manifest after that."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def draft(self, step: int) -> CheckpointDraft:
        target = self.directory / directory_name(step)
        return CheckpointDraft(step=step, place=str(self.directory / f".{target.name}.partial"), path=str(target))

    def write(self, draft: CheckpointDraft, name: str, content: Iterable[memoryview]) -> FileSum:
        place = Path(draft.place)
        place.mkdir(parents=True, exist_ok=True)
        with (place / name).open("wb") as file:
            written = write_summed(file, name, content)
            sync_file(file)
        return written

    def commit(self, draft: CheckpointDraft, files: Sequence[FileSum]) -> None:
        partial, target = Path(draft.place), Path(draft.path)
        for stray in {path.name for path in partial.iterdir()} - {file.name for file in files}:
            _remove(partial / stray)
        sync_directory(partial)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
        sync_directory(self.directory)
        manifest = Manifest(step=draft.step, directory=target.name, made_at=time.time(), files=tuple(files))
        write_atomically(target.with_suffix(".json"), manifest.to_text(), durable=True)

    def verify(self, draft: CheckpointDraft) -> None:
        target = Path(draft.path)
        record = target.with_suffix(".json")
        manifest = Manifest.parse(record.read_text())
        try:
            for file in manifest.files:
                forget_cached(target / file.name)
            manifest.verify(target)
            SavedState.at(target)
        except (ValueError, UnreadableCheckpointError) as difference:
            record.unlink(missing_ok=True)
            _remove(target)
            raise OSError(errno.EIO, f"what was written cannot be read back: {difference}", draft.path) from None
        write_atomically(record, replace(manifest, verified_at=time.time()).to_text(), durable=True)

    def discard(self, draft: CheckpointDraft) -> None:
        _remove(Path(draft.place))
        if not Path(draft.path).with_suffix(".json").exists():
            _remove(Path(draft.path))

    def manifests(self) -> list[str]:
        """A directory that is not there has none; one that cannot be looked into is an OSError."""
        try:
            names = os.listdir(self.directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(fnmatch.filter(names, _MANIFESTS), reverse=True)

    def read_manifest(self, name: str) -> Manifest:
        return Manifest.parse((self.directory / name).read_text())

    def set_aside(self, manifest: str) -> None:
        path = self.directory / manifest
        for found in (path, path.with_suffix("")):
            with suppress(FileNotFoundError):
                found.rename(found.with_name(UNREADABLE + found.name))

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
        self._drop(self.manifests()[count:])

    def drop_after(self, step: int) -> None:
        self._drop(name for name in self.manifests() if name > f"{directory_name(step)}.json")

    def _drop(self, manifests: Iterable[str]) -> None:
        for name in manifests:
            path = self.directory / name
            path.unlink(missing_ok=True)
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
