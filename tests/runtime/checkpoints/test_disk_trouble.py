"""A disk that is full, read-only or gone stops no training: it is told, what was saved stays, and saving comes back."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.core import CheckpointFailed, CheckpointSaved, Joined, StateSuspended, SuspendOrder
from penstock.elastic import Checkpoints
from penstock.runtime.checkpoints.checkpoint import NotSaved, Saved
from tests.runtime.agent import Agent, Zygote, wait_until
from tests.runtime.checkpoints.test_checkpoints import parts_with, save
from tests.runtime.curves import assert_every_sample_once, assert_same_curve, curve
from tests.tools.disks import Disk, disk

__all__ = ["disk"]


def step_of(files: Checkpoints) -> int:
    manifest = files.newest()
    assert manifest is not None
    return manifest.step


def try_to_save(files: Checkpoints, step: int) -> NotSaved:
    files.begin(parts_with(float(step)).capture(step))
    outcome = files.settle()
    assert isinstance(outcome, NotSaved), outcome
    return outcome


def test_a_full_disk_leaves_the_checkpoint_before_and_no_rubbish(disk: Disk) -> None:
    files = Checkpoints(disk.path / "checkpoints", keep=1)
    save(files, 1, 1.0)
    disk.fill()
    assert try_to_save(files, 2).reason == "No space left on device"
    assert sorted(path.name for path in Path(files.location).iterdir()) == ["step-0000000001", "step-0000000001.json"]
    assert step_of(files) == 1
    disk.free()
    save(files, 3, 3.0)
    assert step_of(files) == 3


def test_a_disk_that_becomes_read_only(disk: Disk) -> None:
    files = Checkpoints(disk.path / "checkpoints")
    save(files, 1, 1.0)
    disk.remount("ro")
    assert try_to_save(files, 2).reason == "Read-only file system"
    assert step_of(files) == 1
    disk.remount("rw")
    save(files, 3, 3.0)
    assert step_of(files) == 3


def test_a_directory_that_is_gone_is_made_again(tmp_path: Path) -> None:
    files = Checkpoints(tmp_path / "a" / "checkpoints")
    save(files, 1, 1.0)
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "a").write_text("in the way")
    assert try_to_save(files, 2).reason in ("Not a directory", "File exists")
    (tmp_path / "a").unlink()
    save(files, 3, 3.0)
    assert step_of(files) == 3


LIMITED = """
import resource, sys
from pathlib import Path
sys.path.append(sys.argv[2])
from penstock.elastic import Checkpoints
from tests.runtime.checkpoints.test_checkpoints import parts_with

files = Checkpoints(Path(sys.argv[1]))
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
for step, limit in ((1, hard), (2, 100), (3, hard)):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    files.begin(parts_with(float(step)).capture(step))
    outcome = files.settle()
    print(step, type(outcome).__name__, getattr(outcome, "reason", ""), files.newest().step)
"""


def test_a_quota_is_a_full_disk(zygote: Zygote, tmp_path: Path) -> None:
    script, told, problems = (tmp_path / name for name in ("limited.py", "out", "err"))
    script.write_text(LIMITED, encoding="utf-8")
    root = str(Path(__file__).parents[3])
    zygote.ask(
        op="fork", id="limited", argv=[str(script), str(tmp_path / "checkpoints"), root], cwd=root, stdout=str(told),
        stderr=str(problems),
    )  # fmt: skip
    ended = wait_until(lambda: zygote.event("exited", "limited"), "the end of a process with a quota")
    assert ended["code"] == 0, problems.read_text()
    assert told.read_text().splitlines() == ["1 Saved  1", "2 NotSaved File too large 1", "3 Saved  3"]
    assert "cannot be written" in problems.read_text()


def saved_steps(agent: Agent) -> list[int]:
    return [one.step for one in agent.heard(CheckpointSaved)]


@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_training_goes_on_and_saving_comes_back(launch: Callable[..., Agent], disk: Disk, trouble: str) -> None:
    plain = launch("--steps", "90")
    plain.start("w0")
    agent = launch("--steps", "90", "--save-steps", "4", "--sleep", "0.03")
    agent.checkpoints = disk.path / "checkpoints"
    agent.start("w0", "w1")
    wait_until(lambda: saved_steps(agent), "a checkpoint")
    disk.fill() if trouble == "full" else disk.remount("ro")
    failed = wait_until(lambda: agent.heard(CheckpointFailed), "the trouble to be told")[0]
    agent.wait_step(failed.step + 12)
    disk.free() if trouble == "full" else disk.remount("rw")
    wait_until(lambda: saved_steps(agent)[-1] > failed.step, f"saving to come back; {agent.errors()}")
    assert {one["code"] for one in (*agent.wait_exits(), *plain.wait_exits())} == {0}, agent.errors()
    assert len(agent.heard(CheckpointFailed)) == 1
    assert f"cannot be written to {agent.checkpoints}" in agent.errors()
    assert saved_steps(agent)[-1] == 90
    assert_same_curve(agent, plain)


def test_a_suspension_tells_what_is_really_saved(launch: Callable[..., Agent], disk: Disk) -> None:
    agent = launch("--steps", "400", "--save-steps", "4", "--sleep", "0.02")
    agent.checkpoints = disk.path / "checkpoints"
    agent.start("w0")
    wait_until(lambda: saved_steps(agent), "a checkpoint")
    disk.fill()
    wait_until(lambda: agent.heard(CheckpointFailed), "the trouble to be told")
    agent.send("w0", SuspendOrder())
    assert agent.wait_exits()[0]["code"] == 0, agent.errors()
    told = agent.heard(StateSuspended)[0].step
    assert told == saved_steps(agent)[-1] < max(curve(agent))
    disk.free()
    agent.start("w0")
    agent.wait_joined()
    resumed = Checkpoints(agent.checkpoints)
    assert step_of(resumed) == told


def test_sharded_state_stays_in_its_world_until_it_can_be_saved(launch: Callable[..., Agent], disk: Disk) -> None:
    plain = launch("--steps", "400")
    plain.start("w0")
    agent = launch("--steps", "400", "--strategy", "fsdp2", "--sleep", "0.02")
    agent.checkpoints = disk.path / "checkpoints"
    agent.checkpoints.mkdir()
    agent.start("w0", "w1")
    agent.wait_joined()
    disk.fill()
    agent.resize("w0")
    failed = wait_until(lambda: agent.heard(CheckpointFailed), f"the trouble to be told; {agent.errors()}")[0]
    agent.wait_step(failed.step + 20)
    assert not [one for one in agent.heard(Joined) if one.generation == 1]
    disk.free()
    agent.wait_joined()
    assert {one["code"] for one in (*agent.wait_exits(), *plain.wait_exits())} == {0}, agent.errors()
    assert_same_curve(agent, plain)
    assert_every_sample_once(agent, 400, plain)


def test_saved_outcomes_name_their_place(tmp_path: Path) -> None:
    files = Checkpoints(tmp_path)
    files.begin(parts_with(1.0).capture(7))
    saved = files.settle()
    assert isinstance(saved, Saved)
    assert os.listdir(saved.path)
