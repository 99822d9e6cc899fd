"""Checkpoints that are whole or not there.

A checkpoint counts only once its manifest (step, files, sizes, checksums) exists, which is written last, wherever its
files lie (:mod:`penstock.runtime.checkpoints.storage`); it is read back as resuming reads it, and only then are older
ones deleted. Only the copy into host memory can hold training up (:mod:`penstock.runtime.checkpoints.staging`); files
are written in the background (:mod:`penstock.runtime.checkpoints.shard_writing`). Between two of them snapshots can
stay in memory (:mod:`penstock.runtime.checkpoints.memory`). A checkpoint that cannot be written is cleared away, leaves
those before it alone and is reported; training goes on. Reading checks every checksum, runs nothing that a checkpoint
holds (:mod:`penstock.runtime.checkpoints.saved_state`) and falls back to the newest readable one, naming those that it
passed over.
"""

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch.distributed as dist

from penstock.core import InputError, is_url
from penstock.runtime.checkpoints.directory_storage import DirectoryStorage
from penstock.runtime.checkpoints.layout.chunks import Layout
from penstock.runtime.checkpoints.manifest import EXTRAS, STATE, FileSum, Manifest, step_of
from penstock.runtime.checkpoints.memory.snapshots import MemorySnapshots
from penstock.runtime.checkpoints.saved_state import SavedState, ShardFile, UnreadableCheckpointError, state_text
from penstock.runtime.checkpoints.shard_writing import write_shards
from penstock.runtime.checkpoints.staging import Arena, Copy
from penstock.runtime.checkpoints.state import Snapshot, State
from penstock.runtime.checkpoints.storage import CheckpointDraft, CheckpointStorage, reason_of
from penstock.runtime.value_codec import encode
from penstock.runtime.value_messages import gather_values

_log = logging.getLogger(__name__)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A checkpoint that is there and cannot be read, and why."""

    name: str
    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class Look:
    """What there is to resume from: the newest readable checkpoint, and newer ones that cannot be read."""

    manifest: Manifest | None
    passed_over: tuple[Unreadable, ...]

    def to_row(self) -> tuple[str | None, list[tuple[str, int, str]]]:
        """As rank 0 tells the others."""
        text = None if self.manifest is None else self.manifest.to_text()
        return text, [(each.name, each.step, each.reason) for each in self.passed_over]

    @classmethod
    def from_row(cls, row: tuple[str | None, list[tuple[str, int, str]]]) -> "Look":
        text, passed_over = row
        found = tuple(Unreadable(name=name, step=step, reason=reason) for name, step, reason in passed_over)
        return cls(None if text is None else Manifest.parse(text), found)


@dataclass(slots=True)
class _Copying:
    """A snapshot that is being copied and, with memory of its own, kept and given to peers."""

    copy: Copy
    finished: "Future[None]"
    kept: "Future[None]"


@dataclass(slots=True)
class _Writing:
    """The checkpoint that is being written; ``commits`` is whether this worker makes it whole.

    ``collected`` is set when nothing about it concerns other workers or the arena any more, and ``is_saved`` before
    that if everybody's files are there: what is left then is to commit and to verify them.
    """

    draft: CheckpointDraft
    commits: bool
    blocking_s: float = 0.0
    written: "Future[None] | None" = None
    collected: threading.Event = field(default_factory=threading.Event)
    is_saved: bool = False

    @property
    def done(self) -> bool:
        return self.written is None or self.written.done()


class Checkpoints:
    """The checkpoints of one run in one place, a directory or a URL; at most one is being written.

    ``memory`` keeps snapshots in the machine's memory between them; ``arena_bytes`` bounds the host memory for copies.
    """

    def __init__(
        self,
        location: str | Path,
        keep: int = 2,
        *,
        memory: MemorySnapshots | None = None,
        arena_bytes: int | None = None,
    ) -> None:
        if keep < 1:
            raise InputError(f"keep={keep} checkpoints", "at least 1", "Leave it out to keep two")
        if arena_bytes is not None and arena_bytes < 1:
            raise InputError(f"arena_bytes={arena_bytes}", "more than 0", "Leave it out for half of what is free")
        self.location = str(location)
        self.memory = memory
        self._storage = _storage_of(str(location))
        self._keep = keep
        self._arena = Arena(arena_bytes)
        self._background = ThreadPoolExecutor(1, thread_name_prefix="penstock-snapshot")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="penstock-checkpoint")
        self._copying: _Copying | None = None
        self._writing: _Writing | None = None

    @property
    def busy(self) -> bool:
        return self._writing is not None and not self._writing.done

    @property
    def has_room(self) -> bool:
        """Whether a snapshot could begin at the coming border without waiting for another.

        With peers it can: the optimizer will have waited for the one before by then, see :meth:`hold_for_peers`.
        """
        if self.memory is not None and self.memory.has_peers:
            return True
        return self._arena.has_room and (self._copying is None or self._copying.kept.done())

    def prepare(self, snapshot: Snapshot) -> None:
        """Get host memory ready in the background, so that the first checkpoint is as quick as the later ones."""
        self._background.submit(self._arena.reserve, snapshot.tensors)

    def open_memory(self, **world: Any) -> None:
        """Begin the snapshots in memory of a world; see :meth:`MemorySnapshots.open`."""
        if self.memory is not None:
            self._arena.settle_in(self.memory.open(**world))

    def close_memory(self) -> None:
        """Copies go to memory of the process again; what lies in memory of the machine stays there."""
        if self.memory is not None:
            self.detach()
            self.memory.leave()
            self._arena.settle_in(None)

    def begin(self, snapshot: Snapshot, group: dist.ProcessGroup | None = None) -> float:
        """Start a checkpoint and return how long that took. Call :meth:`hold` before the state changes.

        Without a group this worker writes everything by itself, so that no resize can get in the way; with one, every
        member writes its shards and rank 0 commits. The caller sees to it that the one before is settled.
        """
        started = time.perf_counter()
        draft = self._storage.draft(snapshot.step)
        writing = _Writing(draft, commits=group is None or dist.get_rank(group) == 0)
        self._writing = writing
        copying = self._copy(snapshot)
        writing.written = self._writer.submit(self._write, writing, copying, snapshot, group)
        if copying is None:
            wait([writing.written])
        writing.blocking_s = time.perf_counter() - started
        return writing.blocking_s

    def remember(self, snapshot: Snapshot) -> float:
        """Keep a snapshot in memory only; returns how long that took."""
        started = time.perf_counter()
        awaited = self.memory is not None and self.memory.has_world
        if (self._arena.outlives_process or awaited) and (copying := self._copy(snapshot)) is not None:
            slot = copying.copy.slot
            copying.kept.add_done_callback(
                lambda kept: self._arena.release(slot, -1 if kept.exception() else snapshot.step)
            )
        return time.perf_counter() - started

    def hold(self) -> None:
        """Wait until the state may change: an optimizer is about to step, or a world to end."""
        if self._copying is not None:
            started = time.perf_counter()
            self._copying.copy.wait()
            self._count(time.perf_counter() - started)

    def hold_for_peers(self) -> None:
        """Wait also until peers have the snapshot before: so no more than one step can be lost with a worker."""
        self.hold()
        if self._copying is not None and self.memory is not None and self.memory.has_peers:
            started = time.perf_counter()
            self._copying.kept.result()
            self._count(time.perf_counter() - started)

    def poll(self) -> Saved | NotSaved | None:
        """What became of the last checkpoint, if it has been settled since the last call."""
        return self.settle() if self._writing is not None and not self.busy else None

    def settle(self) -> Saved | NotSaved | None:
        """Wait until nothing is being written; nothing comes back where there was nothing, or another commits it."""
        self.hold()
        if self._copying is not None:
            wait([self._copying.kept])
            self._copying = None
        writing, self._writing = self._writing, None
        if writing is None or writing.written is None:
            return None
        try:
            writing.written.result()
        except Exception as error:
            return self._give_up(writing, error)
        if not writing.commits:
            return None
        return Saved(step=writing.draft.step, path=writing.draft.path, blocking_s=writing.blocking_s)

    def detach(self) -> Saved | NotSaved | None:
        """Wait until no other worker is needed: the world is over, and the next one need not wait for a commit.

        Verifying reads everything back, which takes longer the more there is; it goes on by itself.
        """
        self.hold()
        if self._copying is not None:
            wait([self._copying.kept])
            self._copying = None
        writing = self._writing
        if writing is not None and writing.written is not None:
            writing.collected.wait()
            if writing.is_saved and writing.commits and not writing.done:
                return None
        return self.settle()

    @property
    def pending_step(self) -> int:
        """Of the checkpoint that is being written; -1 without one."""
        return -1 if self._writing is None else self._writing.draft.step

    def sweep(self) -> None:
        """Remove what an earlier run did not finish writing: drafts, and files whose manifest never came."""
        self._storage.sweep()

    def latest_step(self) -> int:
        """Of the newest that claims to be a checkpoint, by its name alone; -1 without any."""
        try:
            return max((step_of(name) for name in self._storage.manifests()), default=-1)
        except OSError:
            return -1

    def newest(self, step: int | None = None, *, at_most: int | None = None) -> Manifest | None:
        """The newest checkpoint that can be read, every byte of it; of a step, or of at most so many steps."""
        return self.look(step, at_most=at_most).manifest

    def look(self, step: int | None = None, *, at_most: int | None = None) -> Look:
        """Find the newest checkpoint that can be read, as loading will read it, and name those passed over."""
        passed_over: list[Unreadable] = []
        for name in self._storage.manifests():
            if (step is not None and step_of(name) != step) or (at_most is not None and step_of(name) > at_most):
                continue
            try:
                manifest = self._storage.read_manifest(name)
                place = self._storage.fetch(manifest)
                manifest.verify(place)
                SavedState.at(place)
            except (ConnectionError, TimeoutError):
                raise  # the storage is away, which says nothing about the checkpoint: the run is tried again
            except (OSError, ValueError, TypeError, KeyError, UnreadableCheckpointError) as error:
                _log.warning("checkpoint %s is damaged (%s); trying the one before it", name, str(error))
                reason = error.given if isinstance(error, UnreadableCheckpointError) else reason_of(error)
                passed_over.append(Unreadable(name=name, step=max(step_of(name), 0), reason=reason))
                self._storage.release()
            else:
                return Look(manifest, tuple(passed_over))
        return Look(None, tuple(passed_over))

    def set_aside(self, names: Iterable[str]) -> None:
        """Take checkpoints that cannot be read out of the way of new ones; their files are kept."""
        for name in names:
            try:
                self._storage.set_aside(name)
            except OSError as error:
                _log.warning("the unreadable checkpoint %s cannot be set aside: %s", name, error)

    def drop_after(self, step: int, *, is_main: bool) -> None:
        """Remove what is of later steps: training goes back behind it. What is saved, rank 0 alone removes."""
        if self._copying is not None:
            wait((self._copying.kept,))
        if self.memory is not None:
            self.memory.place.drop_after(step)
        if is_main:
            self._storage.drop_after(step)

    def fetch(self, manifest: Manifest) -> Path:
        """A directory of this machine with the files of a checkpoint, until :meth:`release`."""
        return self._storage.fetch(manifest)

    def release(self) -> None:
        self._storage.release()

    def load(self, manifest: Manifest, parts: State, group: dist.ProcessGroup | None = None) -> None:
        """Read a checkpoint into the parts, whatever world wrote it."""
        place = self._storage.fetch(manifest)
        saved = SavedState.at(place)
        room = parts.room_for(saved.specs)
        saved.fill(place, room)
        parts.restore(room, dict(saved.extras))
        self._storage.release()
        gather_values(manifest.step, group)  # no worker trains on before all have read

    def _copy(self, snapshot: Snapshot) -> _Copying | None:
        """Begin to copy a snapshot; nothing where it does not fit."""
        copy = self._arena.begin(snapshot.tensors, snapshot.updated)
        if copy is None:
            self._background.submit(self._remember, None, None, snapshot)
            return None
        finished = self._background.submit(copy.finish)
        kept = self._background.submit(self._remember, copy, finished, snapshot)
        self._copying = _Copying(copy, finished, kept)
        return self._copying

    def _remember(self, copy: Copy | None, finished: "Future[None] | None", snapshot: Snapshot) -> None:
        if finished is not None:
            finished.result()
        if self.memory is not None:
            self.memory.keep(copy, snapshot, outlives_process=self._arena.outlives_process)

    def _write(
        self, writing: _Writing, copying: _Copying | None, snapshot: Snapshot, group: dist.ProcessGroup | None
    ) -> None:
        tensors = snapshot.tensors
        try:
            chunks = Layout.of(tensors).chunks
            if copying is not None:
                copying.finished.result()
                tensors = copying.copy.tensors
            shards, files = write_shards(self._storage, writing.draft, chunks, tensors, group)
            writing.is_saved = True
        finally:
            if copying is not None:
                self._release(copying, snapshot.step)
            writing.collected.set()
        if writing.commits:
            self._commit(writing.draft, snapshot, shards, files)

    def _release(self, copying: _Copying, step: int) -> None:
        wait([copying.kept])
        self._arena.release(copying.copy.slot, -1 if copying.kept.exception() else step)

    def _count(self, seconds: float) -> None:
        """Training stood still, and the checkpoint under way is why."""
        if self._writing is not None:
            self._writing.blocking_s += seconds

    def _give_up(self, writing: _Writing, error: BaseException) -> NotSaved:
        """Make room again, and say what is wrong in one line unless it is nothing a disk does."""
        self._storage.discard(writing.draft)
        cause = _cause(error)
        reason = reason_of(cause)
        _log.error(
            "the checkpoint of step %d cannot be written to %s: %s. Training goes on, the next one is tried when it is "
            "due, and those written before are kept.", writing.draft.step, self.location, reason,
            exc_info=None if isinstance(cause, OSError) else error,
        )  # fmt: skip
        return NotSaved(step=writing.draft.step, path=writing.draft.path, reason=reason)

    def _commit(
        self, draft: CheckpointDraft, snapshot: Snapshot, shards: Iterable[ShardFile], files: Iterable[FileSum]
    ) -> None:
        described = {EXTRAS: encode(snapshot.extras), STATE: state_text(shards).encode()}
        sums = [self._storage.write(draft, name, [memoryview(content)]) for name, content in described.items()]
        self._storage.commit(draft, [*files, *sums])
        self._storage.verify(draft)
        self._storage.keep_newest(self._keep)


def _storage_of(location: str) -> CheckpointStorage:
    """A directory, also one that is written as a URL, or whatever fsspec reaches."""
    path = location.removeprefix("file://")
    if not is_url(path):
        return DirectoryStorage(Path(path))
    from penstock.runtime.checkpoints.object_storage import ObjectStorage

    return ObjectStorage(location)


def _cause(error: BaseException) -> BaseException:
    """What a disk said, dug out of what a library made of it."""
    deeper = error.__cause__ or error.__context__
    return error if isinstance(error, OSError) or deeper is None else _cause(deeper)
