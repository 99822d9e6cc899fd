"""Host memory for copies is bounded, two snapshots at most are in it, and whoever wants more waits and is told."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from penstock.core import InputError
from penstock.elastic import Checkpoints
from penstock.runtime.checkpoints import staging
from penstock.runtime.checkpoints.checkpoint import Saved
from penstock.runtime.checkpoints.memory.host_memory import check_room
from penstock.runtime.checkpoints.staging import Arena
from tests.runtime.checkpoints.parts import assert_equal_states, parts_of

TENSORS = {"a": torch.arange(1000.0), "b": torch.arange(7), "scalar": torch.tensor(3.0), "none": torch.empty(0, 4)}


def test_a_copy_is_what_was_there_and_the_same_memory_is_used_again() -> None:
    arena = Arena()
    first = arena.begin(TENSORS, frozenset())
    assert first is not None
    assert all(torch.equal(first.tensors[key], tensor) for key, tensor in TENSORS.items())
    assert all(first.tensors[key].data_ptr() % 64 == 0 for key in TENSORS)
    place = first.bytes.data_ptr()
    arena.release(first.slot)
    again = arena.begin(TENSORS, frozenset())
    assert again is not None
    assert again.bytes.data_ptr() == place


def test_a_third_snapshot_waits_for_one_of_two_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(staging, "_WORTH_TELLING_S", 0.0)
    arena = Arena()
    first, second = arena.begin(TENSORS, frozenset()), arena.begin(TENSORS, frozenset())
    assert first is not None
    assert second is not None
    assert first.slot is not second.slot
    assert not arena.has_room
    caplog.clear()
    third: list[staging.Copy | None] = []
    waiting = threading.Thread(target=lambda: third.append(arena.begin(TENSORS, frozenset())))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    arena.release(second.slot, 5)
    waiting.join(30)
    assert third[0] is not None
    assert third[0].slot is second.slot
    assert "for the arena" in caplog.text


def test_of_two_free_slots_the_older_snapshot_gives_way() -> None:
    arena = Arena()
    copies = [arena.begin(TENSORS, frozenset()) for _ in range(2)]
    for copy, step in zip(copies, (9, 4), strict=True):
        assert copy is not None
        arena.release(copy.slot, step)
    newest = arena.begin(TENSORS, frozenset())
    assert newest is not None
    assert copies[1] is not None
    assert newest.slot is copies[1].slot


def test_a_state_that_does_not_fit_is_saved_while_training_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Checkpoints(tmp_path, arena_bytes=100)
    before = parts_of(1)
    files.begin(before.capture(3))
    assert "does not fit the arena of 100B" in caplog.text
    assert not files.busy
    assert isinstance(files.settle(), Saved)
    manifest, after = files.newest(), parts_of(2)
    assert manifest is not None
    files.load(manifest, after)
    assert_equal_states(before, after)


def test_an_arena_with_room_for_one_has_one() -> None:
    arena = Arena(limit_bytes=6000)
    first = arena.begin(TENSORS, frozenset())
    assert first is not None
    arena.release(first.slot, 1)
    second = arena.begin(TENSORS, frozenset())
    assert second is not None
    assert second.slot is first.slot


def test_refusals_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="arena_bytes=0"):
        Checkpoints(tmp_path, arena_bytes=0)
    with pytest.raises(InputError, match="Enlarge it"):
        check_room(tmp_path, 1 << 60)


@pytest.mark.parametrize(
    ("peers", "is_free", "kept", "room"),
    [
        (True, False, False, True), (False, False, True, False), (None, False, True, False), (False, True, True, True),
        (False, True, False, False), (None, True, None, True),
    ],
)  # fmt: skip
def test_a_snapshot_may_begin_where_it_needs_to_wait_for_no_other(
    peers: bool | None, is_free: bool, kept: bool | None, room: bool
) -> None:
    """With peers the optimizer waits anyway; else for host memory, and for the copy before, if there is one."""
    copying = None if kept is None else SimpleNamespace(kept=SimpleNamespace(done=lambda: kept))
    checkpoints: Any = SimpleNamespace(
        memory=None if peers is None else SimpleNamespace(has_peers=peers), _copying=copying,
        _arena=SimpleNamespace(has_room=is_free),
    )  # fmt: skip
    assert Checkpoints.has_room.fget(checkpoints) is room  # type: ignore[attr-defined]
