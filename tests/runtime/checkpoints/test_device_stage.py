"""Memory of a device is used on the way only where twice as much is free, and no longer once training needs it."""

import pytest
import torch

from penstock.runtime.checkpoints import staging
from penstock.runtime.checkpoints.device_stage import DeviceStage
from penstock.runtime.checkpoints.layout.chunks import Layout

HERE = torch.device("cpu")


def test_room_is_granted_where_twice_as_much_is_free_and_then_again() -> None:
    free = [1000]
    stage = DeviceStage(lambda _: free[0])
    assert stage.room(501, HERE) is None
    granted = stage.room(500, HERE)
    assert granted is not None
    assert (granted.numel(), granted.dtype) == (500, torch.uint8)
    free[0] = 0
    assert stage.room(500, HERE) is not None, "what was granted before is still with the allocator"
    assert stage.room(501, HERE) is None


def test_a_device_that_is_full_after_all_is_asked_again_only_when_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = [1000]
    stage = DeviceStage(lambda _: free[0])
    assert stage.room(100, HERE) is not None
    free[0] = 0

    def full(*_: object, **__: object) -> torch.Tensor:
        raise torch.OutOfMemoryError("full")

    with monkeypatch.context() as patched:
        patched.setattr(torch, "empty", full)
        assert stage.room(100, HERE) is None
    assert stage.room(100, HERE) is None
    free[0] = 200
    assert stage.room(100, HERE) is not None


def test_staged_tensors_lie_as_they_will_on_the_host_and_do_not_change_with_the_living_ones() -> None:
    living = {"a": torch.arange(1000.0), "b": torch.arange(7), "c": torch.ones(3, 5, dtype=torch.bfloat16)}
    layout = Layout.of(living)
    room = torch.zeros(layout.bytes, dtype=torch.uint8)
    staged = staging._staged(layout, living, ["b", "c"], room)
    for tensor in living.values():
        tensor.add_(1)
    assert staged.keys() == {"b", "c"}
    assert torch.equal(staged["b"], torch.arange(7))
    assert torch.equal(layout.chunks[2].view(room), torch.ones(3, 5, dtype=torch.bfloat16))
