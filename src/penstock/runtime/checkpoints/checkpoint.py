"""Checkpoints that are whole or not there.

A checkpoint counts only once its manifest (step, files, sizes, checksums) exists, which is written last, wherever its
files lie (:mod:`penstock.runtime.checkpoints.storage`); older ones are deleted after that. Only the copy into host
memory can hold training up (:mod:`penstock.runtime.checkpoints.staging`); files are written by
``torch.distributed.checkpoint`` in the background. A checkpoint that cannot be written is cleared away, leaves those
before it alone and is told; training goes on. Reading checks every checksum, runs nothing that a checkpoint holds
(:mod:`penstock.runtime.checkpoints.safe_reading`) and falls back to the newest intact one.
"""

import io
import logging
import time
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save

from penstock.core import InputError, is_url
from penstock.runtime.checkpoints.directory_storage import DirectoryStorage
from penstock.runtime.checkpoints.manifest import Manifest
from penstock.runtime.checkpoints.safe_reading import (
    SafeReader,
    TensorPlanner,
    UnsafeCheckpointError,
    read_extras,
    read_metadata,
)
from penstock.runtime.checkpoints.staging import Arena, Copy
from penstock.runtime.checkpoints.state import Parts, Snapshot, TensorSpec
from penstock.runtime.checkpoints.storage import EXTRAS, CheckpointDraft, CheckpointStorage

_log = logging.getLogger(__name__)
# One writer without collectives is what we want for replicated state; torch warns about it in its own thread.
warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint that is now whole, and how long training stood still for it."""

    step: int
    path: str
    blocking_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSaved:
    """A checkpoint that could not be written, and why; the ones before it are still there."""

    step: int
    path: str
    reason: str


@dataclass(slots=True)
class _Writing:
    """The checkpoint that is being written."""

    draft: CheckpointDraft
    blocking_s: float = 0.0
    copy: Copy | None = None
    written: "Future[Any] | None" = None
    committed: "Future[None] | None" = None

    @property
    def done(self) -> bool:
        future = self.committed or self.written
        return future is None or future.done()

    def result(self) -> None:
        for future in (self.written, self.committed):
            if future is not None:
                future.result()


class Checkpoints:
    """The checkpoints of one run in one place, a directory or a URL; at most one is being written."""

    def __init__(self, location: str | Path, keep: int = 2) -> None:
        if keep < 1:
            raise InputError(f"keep={keep} checkpoints", "at least 1", "Leave it out to keep two")
        self.location = str(location)
        self._storage = _storage_of(str(location))
        self._keep = keep
        self._arena = Arena()
        self._background = ThreadPoolExecutor(1, thread_name_prefix="penstock-checkpoint")
        self._writing: _Writing | None = None

    @property
    def busy(self) -> bool:
        return self._writing is not None and not self._writing.done

    def prepare(self, snapshot: Snapshot) -> None:
        """Get host memory ready in the background, so that the first checkpoint is as quick as the later ones."""
        self._background.submit(self._arena.reserve, snapshot.tensors)

    def begin(self, snapshot: Snapshot, group: dist.ProcessGroup | None = None) -> float:
        """Start a checkpoint and return how long that took. Call :meth:`hold` before the state changes.

        Without a group this worker writes everything by itself, so that no resize can get in the way; with one, every
        member writes its shards and rank 0 commits. The caller sees to it that the one before is settled.
        """
        started = time.perf_counter()
        writing = _Writing(self._storage.draft(snapshot.step))
        if group is None:
            writing.copy = self._arena.begin(snapshot.tensors, snapshot.updated)
            writing.committed = self._background.submit(self._write_alone, writing, writing.copy, snapshot)
        else:
            self._begin_together(writing, snapshot, group)
        self._writing = writing
        writing.blocking_s = time.perf_counter() - started
        return writing.blocking_s

    def hold(self) -> None:
        """Wait until the state may change: an optimizer is about to step, or a world to end."""
        if self._writing is not None and self._writing.copy is not None:
            started = time.perf_counter()
            self._writing.copy.wait()
            self._writing.copy = None
            self._writing.blocking_s += time.perf_counter() - started

    def poll(self) -> Saved | NotSaved | None:
        """What became of the last checkpoint, if it has been settled since the last call."""
        return self.settle() if self._writing is not None and not self.busy else None

    def settle(self) -> Saved | NotSaved | None:
        """Wait until nothing is being written; nothing comes back where there was nothing, or another commits it."""
        self.hold()
        writing, self._writing = self._writing, None
        if writing is None:
            return None
        try:
            writing.result()
        except (Exception, CheckpointException) as error:  # torch derives the latter from BaseException
            return self._give_up(writing, error)
        if writing.committed is None:
            return None
        return Saved(step=writing.draft.step, path=writing.draft.path, blocking_s=writing.blocking_s)

    def sweep(self) -> None:
        """Remove what an earlier run did not finish writing: drafts, and files whose manifest never came."""
        self._storage.sweep()

    def newest(self) -> Manifest | None:
        """The newest checkpoint whose every byte is what its manifest says."""
        for name in self._storage.manifests():
            try:
                manifest = self._storage.read_manifest(name)
                place = self._storage.fetch(manifest)
                manifest.verify(place)
                read_metadata(place)
                read_extras(place / EXTRAS)
            except (OSError, ValueError, TypeError, KeyError, UnsafeCheckpointError) as error:
                _log.warning("checkpoint %s is damaged (%s); trying the one before it", name, error)
            else:
                return manifest
        return None

    def load(self, manifest: Manifest, parts: Parts, group: dist.ProcessGroup | None = None) -> None:
        """Read a checkpoint into the parts, whatever world wrote it."""
        place = self._storage.fetch(manifest)
        extras = read_extras(place / EXTRAS)
        host = frozenset(extras["host"])
        reader = SafeReader(place)
        specs = [
            TensorSpec(key=key, shape=tuple(entry.size), dtype=entry.properties.dtype, host=key in host)
            for key, entry in reader.read_metadata().state_dict_metadata.items()
            if isinstance(entry, TensorStorageMetadata)
        ]
        room = parts.room_for(specs)
        load(room, storage_reader=reader, planner=TensorPlanner(), process_group=group, no_dist=group is None)
        parts.restore(room, extras)
        self._storage.release()

    def _begin_together(self, writing: _Writing, snapshot: Snapshot, group: dist.ProcessGroup) -> None:
        written = async_save(
            snapshot.tensors,
            storage_writer=self._storage.writer(writing.draft),
            process_group=group,
            async_stager=self._arena,
        )
        assert isinstance(written, Future)
        writing.written = written
        if dist.get_rank(group) == 0:
            writing.committed = self._background.submit(self._commit_together, writing, written, snapshot)

    def _write_alone(self, writing: _Writing, copy: Copy, snapshot: Snapshot) -> None:
        copy.finish()
        save(copy.tensors, storage_writer=self._storage.writer(writing.draft), no_dist=True)
        self._commit(writing.draft, snapshot)

    def _commit_together(self, writing: _Writing, written: Future[Any], snapshot: Snapshot) -> None:
        written.result()
        self._commit(writing.draft, snapshot)

    def _give_up(self, writing: _Writing, error: BaseException) -> NotSaved:
        """Make room again, and say what is wrong in one line unless it is nothing a disk does."""
        self._storage.discard(writing.draft)
        cause = _cause(error)
        reason = str(cause.strerror or cause) if isinstance(cause, OSError) else f"{type(cause).__name__}: {cause}"
        _log.error(
            "the checkpoint of step %d cannot be written to %s: %s. Training goes on, the next one is tried when it is "
            "due, and those written before are kept.", writing.draft.step, self.location, reason,
            exc_info=None if isinstance(cause, OSError) else error,
        )  # fmt: skip
        return NotSaved(step=writing.draft.step, path=writing.draft.path, reason=reason)

    def _commit(self, draft: CheckpointDraft, snapshot: Snapshot) -> None:
        extras = io.BytesIO()
        torch.save(snapshot.extras, extras)
        self._storage.commit(draft, extras.getvalue())
        self._storage.keep_newest(self._keep)


def best_interval_s(blocking_s: float, mean_time_between_failures_s: float) -> float:
    """Young's interval between checkpoints, sqrt(2 C M): the least time lost to saving and to redoing together."""
    if blocking_s <= 0 or mean_time_between_failures_s <= 0:
        raise InputError(
            f"cost {blocking_s:g} s, time between failures {mean_time_between_failures_s:g} s", "both above 0 seconds",
            "Measure the cost with one checkpoint",
        )  # fmt: skip
    return float((2 * blocking_s * mean_time_between_failures_s) ** 0.5)


def _storage_of(location: str) -> CheckpointStorage:
    """A directory, also one that is written as a URL, or whatever fsspec reaches."""
    path = location.removeprefix("file://")
    if not is_url(path):
        return DirectoryStorage(Path(path))
    from penstock.runtime.checkpoints.object_storage import ObjectStorage

    return ObjectStorage(location)


def _cause(error: BaseException) -> BaseException:
    """What a disk said, dug out of what torch made of it."""
    if isinstance(error, CheckpointException) and error.failures:
        return _cause(next(iter(error.failures.values()))[0])
    deeper = error.__cause__ or error.__context__
    return error if isinstance(error, OSError) or deeper is None else _cause(deeper)
