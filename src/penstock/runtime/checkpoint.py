"""Checkpoints that are whole or not there.

A checkpoint is written to a hidden directory, synced, renamed to ``step-…``, and counts only once its manifest
(``step-….json``: step, files, sizes, checksums) exists, which is written last; older ones are deleted after that. Only
the copy into host memory holds training up; files are written by ``torch.distributed.checkpoint`` in the background.
Reading checks every checksum and falls back to the newest checkpoint that is intact.
"""

import hashlib
import json
import logging
import os
import shutil
import time
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.staging import AsyncStager
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.distributed.tensor import DTensor

from penstock.core import InputError
from penstock.runtime.state import Parts, Snapshot, TensorSpec

_log = logging.getLogger(__name__)
_EXTRAS = "extras.pt"
# One writer without collectives is what we want for replicated state; torch warns about it in its own thread.
warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSum:
    """What a file must look like to be trusted."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The record that makes a directory a checkpoint."""

    step: int
    directory: str
    made_at: float
    files: tuple[FileSum, ...]

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        fields = json.loads(path.read_text())
        fields["files"] = tuple(FileSum(**one) for one in fields["files"])
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint that is now whole, and how long training stood still for it."""

    step: int
    path: Path
    blocking_s: float


class Arena(AsyncStager):
    """Host memory that is used again for every snapshot: touching fresh pages costs more than the copy itself."""

    _synchronize_after_execute = False

    def __init__(self) -> None:
        self._held: dict[str, torch.Tensor] = {}

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        staged = {key: self._copy(key, tensor) for key, tensor in state_dict.items()}
        if torch.cuda.is_available():
            torch.cuda.current_stream().synchronize()
        return staged

    def reserve(self, tensors: dict[str, torch.Tensor]) -> None:
        """Touch the memory for these tensors before it is needed."""
        for key, tensor in tensors.items():
            if key not in self._held and not isinstance(tensor, DTensor):
                self._held[key] = torch.zeros(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)

    def synchronize_staging(self) -> None:
        """Nothing to wait for: staging returns when the copy is done."""

    def close(self) -> None:
        """The memory stays for the next snapshot."""

    def _copy(self, key: str, tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, DTensor):
            return tensor.detach().to("cpu", copy=True)
        held = self._held.get(key)
        if held is None or held.shape != tensor.shape or held.dtype != tensor.dtype:
            held = self._held[key] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        return held.copy_(tensor.detach(), non_blocking=tensor.is_cuda)


class Checkpoints:
    """The checkpoints of one run in one directory; at most one is being written."""

    def __init__(self, directory: Path, keep: int = 2) -> None:
        if keep < 1:
            raise InputError(f"keep={keep} checkpoints", "at least 1", "Leave it out to keep two")
        self.directory = directory
        self._keep = keep
        self._arena = Arena()
        self._commits = ThreadPoolExecutor(1, thread_name_prefix="penstock-checkpoint")
        self._written: Future[Any] | None = None
        self._pending: Future[Saved] | None = None

    @property
    def busy(self) -> bool:
        return self._written is not None and not (self._pending or self._written).done()

    def prepare(self, snapshot: Snapshot) -> None:
        """Get host memory ready in the background, so that the first checkpoint is as quick as the later ones."""
        self._commits.submit(self._arena.reserve, snapshot.tensors)

    def begin(self, snapshot: Snapshot, group: dist.ProcessGroup | None = None) -> float:
        """Copy the state, start writing it, and return how long that took.

        Without a group this worker writes everything by itself, so that no resize can get in the way; with one, every
        member writes its shards and rank 0 commits. The caller sees to it that the one before is settled.
        """
        started = time.perf_counter()
        target = self.directory / f"step-{snapshot.step:010d}"
        partial = self.directory / f".{target.name}.partial"
        self.directory.mkdir(parents=True, exist_ok=True)
        written = async_save(
            snapshot.tensors,
            storage_writer=FileSystemWriter(partial, sync_files=True, overwrite=True),
            process_group=group,
            async_stager=self._arena,
            no_dist=group is None,
        )
        assert isinstance(written, Future)
        self._written, self._pending = written, None
        blocking_s = time.perf_counter() - started
        if group is None or dist.get_rank(group) == 0:
            self._pending = self._commits.submit(self._commit, written, snapshot, partial, target, blocking_s)
        return blocking_s

    def poll(self) -> Saved | None:
        """The checkpoint that became whole since the last call, if one did."""
        return self.settle() if self._written is not None and not self.busy else None

    def settle(self) -> Saved | None:
        """Wait until nothing is being written; what failed is logged, the checkpoint before it is still there."""
        written, self._written = self._written, None
        pending, self._pending = self._pending, None
        try:
            if written is not None:
                written.result()
            return pending.result() if pending is not None else None
        except (Exception, CheckpointException):  # torch derives the latter from BaseException
            _log.exception("a checkpoint in %s could not be written; the one before it is kept", self.directory)
            return None

    def sweep(self) -> None:
        """Remove what an earlier run did not finish writing."""
        for partial in self.directory.glob(".step-*.partial"):
            shutil.rmtree(partial, ignore_errors=True)

    def newest(self) -> Manifest | None:
        """The newest checkpoint whose every byte is what its manifest says."""
        for path in sorted(self.directory.glob("step-*.json"), reverse=True):
            try:
                manifest = Manifest.read(path)
                self._verify(manifest)
            except (OSError, ValueError, TypeError, KeyError) as error:
                _log.warning("checkpoint %s is damaged (%s); trying the one before it", path.stem, error)
            else:
                return manifest
        return None

    def load(self, manifest: Manifest, parts: Parts, group: dist.ProcessGroup | None = None) -> None:
        """Read a checkpoint into the parts, whatever world wrote it."""
        place = self.directory / manifest.directory
        extras = torch.load(place / _EXTRAS, weights_only=True)
        host = frozenset(extras["host"])
        reader = FileSystemReader(place)
        specs = [
            TensorSpec(key=key, shape=tuple(entry.size), dtype=entry.properties.dtype, host=key in host)
            for key, entry in reader.read_metadata().state_dict_metadata.items()
            if isinstance(entry, TensorStorageMetadata)
        ]
        room = parts.room_for(specs)
        load(room, storage_reader=reader, process_group=group, no_dist=group is None)
        parts.restore(room, extras)

    def _commit(
        self, written: Future[Any], snapshot: Snapshot, partial: Path, target: Path, blocking_s: float
    ) -> Saved:
        written.result()
        with (partial / _EXTRAS).open("wb") as file:
            torch.save(snapshot.extras, file)
            file.flush()
            os.fsync(file.fileno())
        files = tuple(_sum(path) for path in sorted(partial.iterdir()))
        _sync(partial)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
        _sync(self.directory)
        manifest = Manifest(step=snapshot.step, directory=target.name, made_at=time.time(), files=files)
        _write_whole(target.with_suffix(".json"), json.dumps(asdict(manifest), indent=1))
        self._forget_old()
        return Saved(step=snapshot.step, path=target, blocking_s=blocking_s)

    def _forget_old(self) -> None:
        for path in sorted(self.directory.glob("step-*.json"))[: -self._keep]:
            path.unlink(missing_ok=True)
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)

    def _verify(self, manifest: Manifest) -> None:
        for expected in manifest.files:
            if _sum(self.directory / manifest.directory / expected.name) != expected:
                raise ValueError(f"{expected.name} differs from what was written")


def best_interval_s(blocking_s: float, mean_time_between_failures_s: float) -> float:
    """Young's interval between checkpoints, sqrt(2 C M): the least time lost to saving and to redoing together."""
    if blocking_s <= 0 or mean_time_between_failures_s <= 0:
        raise InputError(
            f"cost {blocking_s:g} s, time between failures {mean_time_between_failures_s:g} s", "both above 0 seconds",
            "Measure the cost with one checkpoint",
        )  # fmt: skip
    return float((2 * blocking_s * mean_time_between_failures_s) ** 0.5)


def _sum(path: Path) -> FileSum:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileSum(name=path.name, bytes=path.stat().st_size, sha256=digest)


def _write_whole(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
