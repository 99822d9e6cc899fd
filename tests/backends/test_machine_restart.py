"""A machine that goes down in the middle of everything: what ran is lost, and another run goes on from there."""

import json
import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from penstock.backends import LocalBackend, fake_devices
from penstock.backends.agent.memory_place import give_memory_back
from penstock.core import Launch, ReportKind
from tests.backends.watching import make_launch, processes_of, until, wait_for, wait_for_end

pytest.importorskip("torch")
SCRIPT = Path(__file__).parents[1] / "runtime" / "scripts" / "train.py"
STEPS_MORE = 40


def power_cut(state_dir: Path) -> None:
    """End every process of every run in the same moment, without a chance to clean up, and lose what is in memory."""
    processes = processes_of(state_dir)
    agents = [psutil.Process(json.loads(path.read_text())["pid"]) for path in state_dir.glob("runs/*/agent.json")]
    for process in (*agents, *processes):
        process.suspend()
    for process in (*agents, *processes):
        with suppress(psutil.NoSuchProcess):  # the kernel ends workers whose agent is gone
            process.kill()
    psutil.wait_procs([*agents, *processes], timeout=20)
    for run in state_dir.glob("runs/*"):
        give_memory_back(run)


def age(run_dir: Path) -> None:
    """What a disk may look like afterwards: a line cut off, and a pid that is somebody else's since the reboot."""
    with (run_dir / "reports.jsonl").open("ab") as journal:
        journal.write(b'{"seq": 99, "at": 1')
    agent = json.loads((run_dir / "agent.json").read_text())
    (run_dir / "agent.json").write_text(json.dumps({**agent, "pid": os.getpid()}))
    assert Path(agent["socket"]).exists()


def job(run_id: str, tmp_path: Path, steps: int, *arguments: str) -> Launch:
    work = tmp_path / run_id
    work.mkdir()
    command = (sys.executable, str(SCRIPT), "--steps", str(steps), "--save-steps", "5", *arguments)
    env = (("OMP_NUM_THREADS", "1"),)
    launch = make_launch(command, 2, run_id, working_dir=str(work), env=env)
    return replace(launch, checkpoint_dir=str(tmp_path / "checkpoints"))


def steps_of(work: Path) -> dict[int, list[int]]:
    """Samples by step, all workers together, of steps that were completed."""
    completed = {json.loads(line)["step"] for path in work.glob("step-*") for line in path.read_text().splitlines()}
    shares = [json.loads(line) for path in work.glob("share-*") for line in path.read_text().splitlines()]
    found: dict[int, list[int]] = {}
    for share in sorted(shares, key=lambda one: one["rank"]):
        if share["step"] in completed:
            found.setdefault(share["step"], []).extend(share["samples"])
    return found


def test_a_restarted_machine_goes_on_from_the_checkpoint(tmp_path: Path, state_dir: Path) -> None:
    before = LocalBackend(state_dir, fake_devices(8))
    before.launch(job("job.0", tmp_path, 1_000_000, "--sleep", "0.03"))
    saved = wait_for(before, "job.0", ReportKind.CHECKPOINTED, count=2).step
    assert saved is not None
    power_cut(state_dir)
    age(state_dir / "runs" / "job.0")

    after = LocalBackend(state_dir, fake_devices(8))
    (status,) = after.runs()
    reports = after.reports("job.0", 0)
    assert (status.alive, status.last_seq) == (False, len(reports))
    assert [report.seq for report in reports] == list(range(1, len(reports) + 1))
    assert not {ReportKind.FINISHED, ReportKind.FAILED, ReportKind.SUSPENDED} & {report.kind for report in reports}

    lost = steps_of(tmp_path / "job.0")
    steps = max(lost) + STEPS_MORE
    after.launch(job("job.1", tmp_path, steps))
    assert wait_for_end(after, "job.1").kind is ReportKind.FINISHED
    resumed = steps_of(tmp_path / "job.1")
    first = min(resumed)
    assert first >= saved
    assert sorted(resumed) == list(range(first, steps))
    assert set(range(first)) <= set(lost)
    assert {step: resumed[step] for step in resumed if step in lost} == {
        step: lost[step] for step in lost if step in resumed
    }
    done_before = {sample for step in range(first // 13 * 13, first) for sample in lost[step]}
    same_epoch = {sample for step in range(first, min(first // 13 * 13 + 13, steps)) for sample in resumed[step]}
    assert not done_before & same_epoch


def test_the_same_run_can_be_launched_again_over_its_ruins(tmp_path: Path, state_dir: Path) -> None:
    before = LocalBackend(state_dir, fake_devices(8))
    launch = make_launch((sys.executable, "-c", "import time; print('here'); time.sleep(600)"), 2)
    before.launch(launch)
    wait_for(before, "run-1", ReportKind.WORKER_STARTED, count=2)
    power_cut(state_dir)
    age(state_dir / "runs" / "run-1")
    after = LocalBackend(state_dir, fake_devices(8))
    assert not after.runs()[0].alive
    assert psutil.pid_exists(os.getpid())
    after.launch(replace(launch, attempt=1, command=("true",)))
    assert wait_for_end(after, "run-1").kind is ReportKind.FINISHED
    reports = after.reports("run-1", 0)
    assert [report.seq for report in reports] == list(range(1, len(reports) + 1))
    until(lambda: not processes_of(state_dir), "nothing to be left")
