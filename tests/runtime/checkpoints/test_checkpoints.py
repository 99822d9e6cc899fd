"""Checkpoints are whole or not there, and any world can go on from one."""

import errno
import hashlib
import json
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from penstock.core import CheckpointSaved, InputError, StateSuspended, SuspendOrder
from penstock.elastic import Checkpoints, best_interval_s
from penstock.runtime.checkpoints.checkpoint import NotSaved, Saved
from penstock.runtime.checkpoints.manifest import Manifest
from penstock.runtime.checkpoints.saved_state import UnreadableCheckpointError
from penstock.runtime.checkpoints.state import Parts
from tests.runtime.agent import Agent
from tests.runtime.curves import assert_same_curve, curve


def parts_with(value: float) -> Parts:
    parts = Parts(torch.device("cpu"))
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    parts.add("model", model)
    parts.add("optimizer", optimizer)
    parts.add("scheduler", torch.optim.lr_scheduler.StepLR(optimizer, 1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)
            parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return parts


def save(files: Checkpoints, step: int, value: float) -> Path:
    files.begin(parts_with(value).capture(step))
    saved = files.settle()
    assert isinstance(saved, Saved), saved
    assert saved.step == step
    return Path(saved.path)


def weight(parts: Parts) -> float:
    return float(next(parts.models["model"].parameters()).detach().mean())


def test_a_saved_state_comes_back_as_it_was(tmp_path: Path) -> None:
    files = Checkpoints(tmp_path)
    before = parts_with(1.0)
    before.others["scheduler"].step()
    files.begin(before.capture(5))
    files.settle()
    after = parts_with(2.0)
    manifest = files.newest()
    assert manifest is not None
    assert manifest.step == 5
    files.load(manifest, after)
    old, new = before.capture(5), after.capture(5)
    assert old.tensors.keys() == new.tensors.keys()
    assert all(torch.equal(tensor, new.tensors[key]) for key, tensor in old.tensors.items())
    assert old.extras == new.extras


def test_training_may_go_on_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    files = Checkpoints(tmp_path)
    parts = parts_with(1.0)
    expected = weight(parts)
    files.begin(parts.capture(1))
    files.hold()
    with torch.no_grad():
        for parameter in parts.models["model"].parameters():
            parameter.fill_(9.0)
    files.settle()
    manifest = files.newest()
    assert manifest is not None
    files.load(manifest, parts)
    assert weight(parts) == expected


def test_old_ones_go_only_when_newer_ones_are_whole(tmp_path: Path) -> None:
    files = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 3):
        save(files, step, step)
    assert sorted(path.name for path in tmp_path.glob("step-*.json")) == [
        "step-0000000002.json",
        "step-0000000003.json",
    ]
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2


@pytest.mark.parametrize("damage", ["flip", "cut", "missing file", "missing directory", "bad manifest", "no manifest"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path: Path, damage: str) -> None:
    files = Checkpoints(tmp_path)
    save(files, 1, 1.0)
    newest = save(files, 2, 2.0)
    data = next(newest.glob("shard-*.bin"))
    match damage:
        case "flip":
            content = bytearray(data.read_bytes())
            content[len(content) // 2] ^= 1
            data.write_bytes(content)
        case "cut":
            data.write_bytes(data.read_bytes()[:-1])
        case "missing file":
            data.unlink()
        case "missing directory":
            newest.rename(tmp_path / "elsewhere")
        case "bad manifest":
            newest.with_suffix(".json").write_text('{"step": 2')
        case "no manifest":
            newest.with_suffix(".json").unlink()
    manifest = files.newest()
    assert manifest is not None
    assert manifest.step == 1


class Planted:
    """Whoever unpickles this runs what it says."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.system, (f"touch {self.mark}",)


def sign(checkpoint: Path) -> None:
    """Make a manifest say what is there now: a checksum is no signature."""
    file = checkpoint.with_suffix(".json")
    manifest = json.loads(file.read_text())
    for one in manifest["files"]:
        content = (checkpoint / one["name"]).read_bytes()
        one |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    file.write_text(json.dumps(manifest))


def planted(checkpoint: Path, mark: Path, where: str) -> None:
    state = json.loads((checkpoint / "state.json").read_text())
    chunk = state["shards"][0]["chunks"][0]
    match where:
        case "a pickle as state":
            (checkpoint / "state.json").write_bytes(pickle.dumps(Planted(mark)))
        case "a pickle as extras":
            (checkpoint / "extras.bin").write_bytes(pickle.dumps(Planted(mark)))
        case "a pickle of PyTorch as extras":
            torch.save(Planted(mark), checkpoint / "extras.bin")
        case "a value that is a call":
            header = json.dumps({"$": "call", "value": ["os.system", f"touch {mark}"]}).encode()
            (checkpoint / "extras.bin").write_bytes(len(header).to_bytes(8, "little") + header)
        case "values nested without end":
            header = b"[" * 200_000 + b"]" * 200_000
            (checkpoint / "extras.bin").write_bytes(len(header).to_bytes(8, "little") + header)
        case "another file":
            state["shards"][0]["file"] = "../../elsewhere.bin"
        case "bytes before the file":
            chunk[6] = -64
        case "bytes behind the file":
            chunk[6] = 1 << 40
        case "a box outside of its tensor":
            chunk[3] = [1, 1]
        case "a type that is a function":
            chunk[1] = "load"
        case "a later version":
            state["version"] = 2
    if "pickle" not in where and "value" not in where:
        (checkpoint / "state.json").write_text(json.dumps(state))
    sign(checkpoint)


@pytest.mark.parametrize(
    "where",
    [
        "a pickle as state", "a pickle as extras", "a pickle of PyTorch as extras", "a value that is a call",
        "values nested without end", "another file", "bytes before the file", "bytes behind the file",
        "a box outside of its tensor", "a type that is a function", "a later version",
    ],
)  # fmt: skip
def test_a_checkpoint_with_other_content_is_not_run_and_the_one_before_is_used(
    tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    files, mark = Checkpoints(tmp_path), tmp_path / "ran"
    save(files, 1, 1.0)
    bad = save(files, 2, 2.0)
    planted(bad, mark, where)
    look = files.look()
    assert look.manifest is not None
    assert look.manifest.step == 1
    assert [(each.step, "cannot be read" in each.reason) for each in look.passed_over] == [(2, True)]
    assert "cannot be read" in caplog.text
    forged = Manifest.parse(bad.with_suffix(".json").read_text())
    with pytest.raises(UnreadableCheckpointError):
        files.load(forged, parts_with(3.0))
    assert not mark.exists()


@pytest.mark.parametrize("place", ["../elsewhere", "/tmp", "."])
def test_a_manifest_that_points_elsewhere_is_passed_over(tmp_path: Path, place: str) -> None:
    files = Checkpoints(tmp_path)
    save(files, 1, 1.0)
    manifest = save(files, 2, 2.0).with_suffix(".json")
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"directory": place}))
    newest = files.newest()
    assert newest is not None
    assert newest.step == 1


def test_what_was_left_half_written_is_ignored_and_swept(tmp_path: Path) -> None:
    files = Checkpoints(tmp_path)
    (tmp_path / ".step-0000000007.partial").mkdir()
    (tmp_path / ".step-0000000007.partial" / "shard-00000.bin").write_bytes(b"half")
    (tmp_path / ".step-0000000006.json.partial").write_text('{"step": 6')
    (tmp_path / "step-0000000006").mkdir()
    (tmp_path / "step-notes").mkdir()
    assert files.newest() is None
    files.sweep()
    assert [path.name for path in tmp_path.iterdir()] == ["step-notes"]


def test_a_manifest_that_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Checkpoints(tmp_path)
    save(files, 1, 1.0)
    rename = Path.replace

    def full(path: Path, target: Path) -> Path:
        if target.name == "step-0000000002.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", full)
    files.begin(parts_with(2.0).capture(2))
    assert isinstance(files.settle(), NotSaved)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-0000000001", "step-0000000001.json"]


def test_a_failed_write_leaves_the_one_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = Checkpoints(tmp_path)
    save(files, 1, 1.0)
    (tmp_path / ".step-0000000002.partial").write_text("a file where the directory should go")
    files.begin(parts_with(2.0).capture(2))
    assert isinstance(files.settle(), NotSaved)
    assert "checkpoint of step 2 cannot be written" in caplog.text
    manifest = files.newest()
    assert manifest is not None
    assert manifest.step == 1


def test_another_model_is_refused_with_the_name_of_what_differs(tmp_path: Path) -> None:
    files = Checkpoints(tmp_path)
    save(files, 1, 1.0)
    other = Parts(torch.device("cpu"))
    other.add("model", torch.nn.Linear(5, 3))
    manifest = files.newest()
    assert manifest is not None
    with pytest.raises(InputError, match="model/model/weight"):
        files.load(manifest, other)


def test_young_interval() -> None:
    assert best_interval_s(0.5, 3600) == pytest.approx(60)
    with pytest.raises(InputError):
        best_interval_s(0, 3600)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_suspend_saves_and_another_width_goes_on(launch: Callable[..., Agent], strategy: str) -> None:
    plain = launch("--steps", "24")
    plain.start("w0", "w1")
    agent = launch("--steps", "24", "--sleep", "0.02", "--strategy", strategy)
    agent.start("w0", "w1")
    agent.wait_joined()
    for worker in ("w0", "w1"):
        agent.send(worker, SuspendOrder())
    assert {one["code"] for one in agent.wait_exits()} == {0}, agent.errors()
    step = agent.heard(StateSuspended)[0].step
    assert step == max(curve(agent)) + 1 < 24
    assert agent.heard(CheckpointSaved)[-1].step == step

    agent.start("w0", "w1", "w2")
    assert {one["code"] for one in (*agent.wait_exits(), *plain.wait_exits())} == {0}, agent.errors()
    assert_same_curve(agent, plain)


def test_regular_checkpoints_and_a_last_one(launch: Callable[..., Agent]) -> None:
    agent = launch("--steps", "30", "--save-steps", "12", "--sleep", "0.02")
    agent.start("w0", "w1")
    assert {one["code"] for one in agent.wait_exits()} == {0}, agent.errors()
    steps = [one.step for one in agent.heard(CheckpointSaved)]
    assert steps == [12, 24, 30]
    manifest = json.loads((Path(agent.checkpoints) / "step-0000000030.json").read_text())
    assert manifest["step"] == 30


def test_an_optimizer_waits_for_the_copy_and_everything_else_is_copied_at_once(tmp_path: Path) -> None:
    """The copy of what only the optimizer changes is held up; what a forward pass changes must be safe already."""
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.BatchNorm1d(256))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    parts = Parts(torch.device("cpu"))
    parts.add("model", model)
    parts.add("optimizer", optimizer)
    files = Checkpoints(tmp_path)
    parts.before_update = files.hold
    blocker = threading.Event()
    files._background.submit(blocker.wait)

    before = {key: tensor.clone() for key, tensor in parts.capture(0).tensors.items()}
    files.begin(parts.capture(0))
    model(torch.randn(8, 256)).sum().backward()
    threading.Timer(0.2, blocker.set).start()
    optimizer.step()
    saved = files.settle()
    assert isinstance(saved, Saved)
    assert saved.blocking_s > 0.1
    manifest = files.newest()
    assert manifest is not None
    files.load(manifest, parts)
    after = parts.capture(0).tensors
    assert all(torch.equal(after[key], tensor) for key, tensor in before.items())


class Odd:
    """A part whose state holds an object that only a pickle could keep."""

    def state_dict(self) -> dict[str, object]:
        return {"position": {"file": Odd()}}

    def load_state_dict(self, state: dict[str, object]) -> None: ...


def test_a_part_whose_state_cannot_be_saved_is_rejected_before_training(tmp_path: Path) -> None:
    parts = parts_with(1.0)
    parts.check()
    parts.add("loader", Odd())
    with pytest.raises(InputError, match=r"the state of 'loader' cannot be saved: position\.file is a .*Odd"):
        parts.check()
    files = Checkpoints(tmp_path)
    files.begin(parts.capture(1))
    outcome = files.settle()
    assert isinstance(outcome, NotSaved)
    assert "parts.loader.position.file is a" in outcome.reason
    assert list(tmp_path.iterdir()) == []


def test_a_storage_that_is_away_for_a_while_does_not_make_a_checkpoint_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Checkpoints(tmp_path)
    save(files, 1, 1.0)

    def away(*_: object) -> None:
        raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))

    monkeypatch.setattr(Manifest, "verify", away)
    with pytest.raises(ConnectionResetError):
        files.look()
    assert (tmp_path / "step-0000000001.json").exists()


def test_a_directory_that_cannot_be_listed_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "listdir", closed)
    with pytest.raises(PermissionError):
        Checkpoints(tmp_path).look()
