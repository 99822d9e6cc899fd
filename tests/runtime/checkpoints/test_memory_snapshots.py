"""Snapshots stay in memory between checkpoints: one of two is always whole, and the newest whole one counts."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.core import InputError
from penstock.elastic import Checkpoints
from penstock.runtime.agent.link import AgentLink
from penstock.runtime.checkpoints.memory.shards import MemoryDirectory
from penstock.runtime.checkpoints.memory.snapshots import MemorySnapshots
from penstock.runtime.checkpoints.saving import Interval, Keeper
from penstock.runtime.checkpoints.state import Parts
from tests.runtime.agent import Agent
from tests.runtime.checkpoints.parts import assert_equal_states, parts_of
from tests.runtime.curves import assert_same_curve


def files_in(folder: Path, **options: int) -> Checkpoints:
    files = Checkpoints(folder / "saved", memory=MemorySnapshots(folder / "memory"), **options)
    files.open_memory()
    return files


def remember(files: Checkpoints, parts: Parts, step: int) -> None:
    files.remember(parts.capture(step))
    files.settle()


def resumed(folder: Path) -> tuple[int, Parts]:
    """What another process would go on from."""
    parts = parts_of(99)
    files = Checkpoints(folder / "saved", memory=MemorySnapshots(folder / "memory"))
    keeper = Keeper(parts, AgentLink(None, "w0"), files, Interval(None, None))
    return keeper.load(keeper.find(is_main=True)), parts


def records(folder: Path) -> list[Path]:
    return sorted((folder / "memory").glob("*/r*.json"))


def test_the_newest_of_checkpoint_and_two_slots_is_gone_on_from(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    states = {step: parts_of(step) for step in (10, 11, 12, 13)}
    files.begin(states[10].capture(10))
    files.settle()
    assert resumed(tmp_path)[0] == 10
    for step in (11, 12, 13):
        remember(files, states[step], step)
        found, parts = resumed(tmp_path)
        assert found == step
        assert_equal_states(parts, states[step])
    assert sorted(json.loads(path.read_text())["step"] for path in records(tmp_path)) == [12, 13]


def test_a_snapshot_without_its_record_is_passed_over_for_the_other_slot(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    remember(files, parts_of(1), 1)
    remember(files, parts_of(2), 2)
    newest = next(path for path in records(tmp_path) if json.loads(path.read_text())["step"] == 2)
    newest.unlink()
    found, parts = resumed(tmp_path)
    assert found == 1
    assert_equal_states(parts, parts_of(1))


@pytest.mark.parametrize("damage", ["no json", "short data", "outside", "another type", "nothing"])
def test_a_damaged_record_is_passed_over(tmp_path: Path, damage: str) -> None:
    files = files_in(tmp_path)
    remember(files, parts_of(1), 1)
    remember(files, parts_of(2), 2)
    newest = next(path for path in records(tmp_path) if json.loads(path.read_text())["step"] == 2)
    record = json.loads(newest.read_text())
    match damage:
        case "no json":
            newest.write_text("{")
        case "short data":
            newest.with_suffix(".bin").write_bytes(b"short")
        case "outside":
            record["chunks"][0][-1] = record["bytes"]
            newest.write_text(json.dumps(record))
        case "another type":
            record["chunks"][0][1] = "load"
            newest.write_text(json.dumps(record))
        case "nothing":
            newest.write_text("[]")
    assert resumed(tmp_path)[0] == 1


def test_a_newer_checkpoint_wins_over_what_is_in_memory(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    remember(files, parts_of(1), 1)
    later = Checkpoints(tmp_path / "saved")
    later.begin(parts_of(5).capture(5))
    later.settle()
    found, parts = resumed(tmp_path)
    assert found == 5
    assert_equal_states(parts, parts_of(5))


def test_a_newer_checkpoint_that_is_damaged_does_not_hide_what_is_in_memory(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    for step in (1, 5):
        later = Checkpoints(tmp_path / "saved")
        later.begin(parts_of(step).capture(step))
        later.settle()
    remember(files, parts_of(3), 3)
    next((tmp_path / "saved" / "step-0000000005").glob("shard-*.bin")).unlink()
    found, parts = resumed(tmp_path)
    assert found == 3
    assert_equal_states(parts, parts_of(3))


def test_what_an_earlier_run_left_goes_when_there_is_something_newer(tmp_path: Path) -> None:
    remember(files_in(tmp_path), parts_of(1), 1)
    files = files_in(tmp_path)
    assert len(records(tmp_path)) == 1
    remember(files, parts_of(2), 2)
    assert [json.loads(path.read_text())["step"] for path in records(tmp_path)] == [2]
    assert len(list((tmp_path / "memory").iterdir())) == 1


def test_memory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "memory").symlink_to(tmp_path)
    with pytest.raises(InputError, match="not a directory of this user's"):
        MemoryDirectory(tmp_path / "memory")


def test_memory_that_is_full_is_told_and_checkpoints_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = files_in(tmp_path)
    monkeypatch.setattr("penstock.runtime.checkpoints.memory.host_memory._SPARE", 1.1)
    files.begin(parts_of(4).capture(4))
    files.settle()
    assert "no snapshots stay in memory" in caplog.text
    remember(files, parts_of(5), 5)
    assert not records(tmp_path)
    assert resumed(tmp_path)[0] == 4


def test_workers_that_were_all_killed_go_on_from_memory(launch: Callable[..., Agent]) -> None:
    plain = launch("--steps", "24")
    plain.start("w0", "w1")
    agent = launch("--steps", "24", "--memory", "memory", "--memory-steps", "2", "--sleep", "0.05")
    agent.start("w0", "w1")
    agent.wait_step(9)
    for worker in ("w0", "w1"):
        agent.kill(worker)
    assert {one["signal"] for one in agent.wait_exits()} == {9}
    assert not list(Path(agent.checkpoints).glob("step-*"))
    agent.start("w0", "w1")
    assert {one["code"] for one in (*agent.wait_exits(), *plain.wait_exits())} == {0}, agent.errors()
    steps = [json.loads(line)["step"] for line in (agent.folder / "step-w0").read_text().splitlines()]
    again = [after for before, after in itertools.pairwise(steps) if after <= before]
    assert len(again) <= 1
    assert all(step > 0 for step in again), "it began anew"
    assert_same_curve(agent, plain)
    assert not list((agent.folder / "memory").glob("*/*"))
