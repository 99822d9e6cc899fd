"""A checkpoint is read back after it was written; one that differs is not kept, and never costs the one before it."""

import json
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.elastic import Checkpoints
from penstock.runtime.checkpoints import checkpoint, directory_storage
from penstock.runtime.checkpoints.checkpoint import NotSaved, Saved
from penstock.runtime.checkpoints.directory_storage import DirectoryStorage
from penstock.runtime.checkpoints.layout.chunks import Box, Chunk
from penstock.runtime.checkpoints.manifest import Manifest
from penstock.runtime.checkpoints.saved_state import ShardFile, state_text
from penstock.runtime.checkpoints.storage import CheckpointDraft
from tests.runtime.checkpoints.parts import parts_of


def save(files: Checkpoints, step: int) -> Saved | NotSaved | None:
    files.begin(parts_of(step, width=8).capture(step))
    return files.settle()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_read_back_says_so(tmp_path: Path) -> None:
    save(Checkpoints(tmp_path), 1)
    manifest = Manifest.parse((tmp_path / "step-0000000001.json").read_text())
    assert manifest.verified_at is not None
    assert manifest.verified_at >= manifest.made_at


def test_a_disk_that_gives_back_something_else_is_told_and_older_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = Checkpoints(tmp_path, keep=1)
    save(files, 1)

    def rot(path: Path) -> None:
        if path.suffix == ".bin":
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)

    with monkeypatch.context() as disk:
        disk.setattr(directory_storage, "forget_cached", rot)
        outcome = save(files, 2)
    assert isinstance(outcome, NotSaved)
    assert "cannot be read back" in outcome.reason
    assert "cannot be read back" in caplog.text
    assert names(tmp_path) == ["step-0000000001", "step-0000000001.json"]
    assert isinstance(save(files, 3), Saved)
    assert names(tmp_path) == ["step-0000000003", "step-0000000003.json"]


def test_manifests_of_before_are_read_and_count_as_not_verified(tmp_path: Path) -> None:
    files = Checkpoints(tmp_path)
    save(files, 1)
    path = tmp_path / "step-0000000001.json"
    path.write_text(
        json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "verified_at"})
    )
    manifest = files.newest()
    assert manifest is not None
    assert manifest.verified_at is None
    assert files.newest(step=2) is None


def test_a_world_that_ends_does_not_wait_until_a_checkpoint_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others had to do with it is over, and the arena is free; the commit goes on and is told later."""
    may_go_on = threading.Event()
    verify = DirectoryStorage.verify

    def patient(self: DirectoryStorage, draft: CheckpointDraft) -> None:
        assert may_go_on.wait(60)
        verify(self, draft)

    monkeypatch.setattr(DirectoryStorage, "verify", patient)
    parts, files = parts_of(1), Checkpoints(tmp_path)
    files.begin(parts.capture(3))
    assert files.detach() is None
    assert files.busy
    assert files.pending_step == 3
    assert files.has_room
    may_go_on.set()
    saved = files.settle()
    assert isinstance(saved, Saved)
    assert (saved.step, files.pending_step) == (3, -1)
    assert files.detach() is None


def test_a_checkpoint_that_fails_is_told_when_its_world_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DirectoryStorage, "write", full)
    files = Checkpoints(tmp_path)
    files.begin(parts_of(1).capture(3))
    told = files.detach()
    assert isinstance(told, NotSaved)
    assert "No space left" in told.reason


def test_a_checkpoint_without_a_part_of_a_tensor_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are to the byte what was written: only the code that resumes sees that something is missing."""

    def lossy(shards: Iterable[ShardFile]) -> str:
        (shard,) = shards
        return state_text([replace(shard, chunks=shard.chunks[:-1]), replace(shard, chunks=_halved(shard.chunks[-1]))])

    files = Checkpoints(tmp_path)
    save(files, 1)
    with monkeypatch.context() as writer:
        writer.setattr(checkpoint, "state_text", lossy)
        outcome = save(files, 2)
    assert isinstance(outcome, NotSaved)
    assert "4 of 8 numbers of" in outcome.reason
    assert (look := files.look()).manifest is not None
    assert (look.manifest.step, look.passed_over) == (1, ())


def _halved(chunk: Chunk) -> tuple[Chunk]:
    return (replace(chunk, box=Box(chunk.box.offset, (*chunk.box.extent[:-1], chunk.box.extent[-1] // 2))),)
