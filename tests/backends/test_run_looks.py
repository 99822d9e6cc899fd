"""Many runs are followed with few looks: what is told is seen at once, what dies without a word in its turn."""

import fcntl
import os
from pathlib import Path

import pytest

from penstock.backends.agent.report_journal import ReportJournalWriter
from penstock.backends.runs.run_looks import TURN, RunLooks
from penstock.backends.runs.rundir import RunDir
from penstock.backends.testing import workers_on
from penstock.core import DeviceSlot, Launch, ReportKind, RunState
from penstock.tools import write_atomically

COUNT = 2 * TURN + 7


class HeldRun:
    """A run whose agent is a lock in this process."""

    def __init__(self, root: Path, number: int) -> None:
        self.directory = RunDir(root / f"run-{number:03}")
        self.directory.path.mkdir(parents=True)
        place = DeviceSlot("node", number)
        self.directory.write_launch(
            Launch(run_id=self.directory.run_id, job_id="job", command=("true",), workers=workers_on([place]))
        )
        self._lock = os.open(self.directory.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.tell(ReportKind.LAUNCHED)
        write_atomically(self.directory.state_file, RunState.RUNNING.value)

    def tell(self, kind: ReportKind) -> None:
        journal = ReportJournalWriter(self.directory.journal, self.directory.run_id)
        journal.append(kind, {})
        journal.close()

    def die(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


@pytest.fixture
def runs(tmp_path: Path):
    held = [HeldRun(tmp_path, number) for number in range(COUNT)]
    yield held
    for one in held:
        one.die()


def states(looks: RunLooks) -> dict[str, RunState]:
    return {run_id: status.state for run_id, status in looks.statuses(looks.directories()).items()}


def test_one_that_died_without_a_word_is_found_within_a_few_rounds(runs: list[HeldRun], tmp_path: Path) -> None:
    looks = RunLooks(tmp_path)
    assert set(states(looks).values()) == {RunState.RUNNING}
    runs[-1].die()
    last = runs[-1].directory.run_id
    seen = [states(looks)[last] for _ in range(-(-COUNT // TURN))]
    assert RunState.ENDED in seen


def test_what_is_told_is_seen_at_once_and_what_is_gone_is_gone(runs: list[HeldRun], tmp_path: Path) -> None:
    looks = RunLooks(tmp_path)
    states(looks)
    runs[-1].tell(ReportKind.PROGRESS)
    write_atomically(runs[-2].directory.state_file, f"{RunState.WAITING.value}\nno room")
    write_atomically(runs[-3].directory.state_file, RunState.ENDING.value)
    runs[-4].directory.launch_file.unlink()
    found = looks.statuses(looks.directories())
    assert found[runs[-1].directory.run_id].last_seq == 2
    waiting = found[runs[-2].directory.run_id]
    assert (waiting.state, waiting.reason) == (RunState.WAITING, "no room")
    assert found[runs[-3].directory.run_id].state is RunState.ENDING
    assert runs[-4].directory.run_id not in found
    runs[-3].die()
    assert states(looks)[runs[-3].directory.run_id] is RunState.ENDED


def test_runs_that_stay_where_they_are_are_not_opened(
    runs: list[HeldRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = RunLooks(tmp_path)
    states(looks)
    asked: list[str] = []
    alive = RunDir.is_alive
    monkeypatch.setattr(RunDir, "is_alive", lambda one: (asked.append(one.run_id), alive(one))[1])
    states(looks)
    assert len(asked) <= TURN
