"""Devices change hands between runs as soon as whoever held them is gone, and not before."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.backends import Backend
from penstock.backends.runs.device_locks import DeviceLocks
from penstock.core import DeviceSlot, Report, ReportKind, Worker
from tests.backends.watching import NODE, make_launch, status, wait_for, wait_for_output

COMMAND = (sys.executable, str(Path(__file__).with_name("elastic_worker.py")))


def on(*devices: int) -> tuple[Worker, ...]:
    return tuple(Worker(id=f"w{device}", rank=rank, node=NODE, slot=device) for rank, device in enumerate(devices))


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """Where workers mark the devices they are on; one that finds a mark fails."""
    directory = tmp_path / "marks"
    directory.mkdir()
    return directory


def begin(backend: Backend, run_id: str, marks: Path, *devices: int) -> None:
    env = (("OCCUPY", str(marks)), ("LEAVE_AFTER_S", "0.3"))
    backend.launch(replace(make_launch(COMMAND, run_id=run_id, env=env), workers=on(*devices)))
    wait_for(backend, run_id, ReportKind.PROGRESS)


def swapped(backend: Backend, run_id: str) -> Report:
    resized = wait_for(backend, run_id, ReportKind.RESIZED)
    wait_for(backend, run_id, ReportKind.PROGRESS, width=2, generation=resized.generation)
    assert status(backend, run_id).alive
    return resized


def test_two_runs_swap_a_device_in_place(local: Backend, marks: Path) -> None:
    begin(local, "a", marks, 0, 1)
    begin(local, "b", marks, 2, 3)
    local.resize("a", on(0, 2), 1)
    local.resize("b", on(3, 1), 1)
    for run_id in ("a", "b"):
        assert swapped(local, run_id).in_place
        resized = [r for r in local.reports(run_id, 0) if r.kind is ReportKind.RESIZED]
        assert len(resized) == 1
    assert sorted(path.name for path in marks.iterdir()) == ["0", "1", "2", "3"]


def test_two_runs_swap_all_their_devices(local: Backend, marks: Path) -> None:
    begin(local, "a", marks, 0, 1)
    begin(local, "b", marks, 2, 3)
    local.resize("a", on(2, 3), 1)
    local.resize("b", on(0, 1), 1)
    assert not swapped(local, "a").in_place
    assert not swapped(local, "b").in_place
    wait_for_output(local, "a", "world 1 1 2", "w3")


def test_a_run_grows_onto_the_devices_of_one_that_ends(local: Backend, marks: Path) -> None:
    begin(local, "a", marks, 0)
    begin(local, "b", marks, 1)
    local.resize("a", on(0, 1), 1)
    local.stop("b", 5.0)
    assert swapped(local, "a").width == 2


def test_a_killed_agent_holds_no_device(local: Backend, marks: Path) -> None:
    begin(local, "a", marks, 0)
    begin(local, "b", marks, 1)
    agent = wait_for(local, "b", ReportKind.LAUNCHED).pid
    assert agent is not None
    os.kill(agent, signal.SIGKILL)
    (marks / "1").unlink()
    local.resize("a", on(0, 1), 1)
    assert swapped(local, "a").width == 2
    wait_for_output(local, "a", "world 1 1 2", "w1")


def test_device_locks_are_shared_within_a_run_and_seen_by_others(tmp_path: Path) -> None:
    ours, theirs = DeviceLocks(tmp_path), DeviceLocks(tmp_path)
    fifth, sixth = DeviceSlot(NODE, 5), DeviceSlot(NODE, 6)
    ours.take("w0", fifth)
    ours.take("w1", fifth)
    assert (ours.is_free(fifth), theirs.is_free(fifth), theirs.is_free(sixth)) == (True, False, True)
    ours.release("w0")
    assert not theirs.is_free(fifth)
    ours.release("w1")
    ours.release("w1")
    assert theirs.is_free(fifth)
