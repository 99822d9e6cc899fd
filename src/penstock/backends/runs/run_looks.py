"""Where runs stand, without looking at all of them all the time.

A server asks several times a second, and most of its runs are where they were. One that is running or waits, and whose
journal and state are the same files as at the last look, is believed to be where it was; of those only :data:`TURN` are
looked at again in one round, in turns, to find agents that have died without a word. Everything else is looked at in
every round.
"""

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.agent.report_journal import last_report
from penstock.backends.runs.rundir import MARKS, RunDir, marked_runs
from penstock.core import RunState, RunStatus

_log = logging.getLogger(__name__)

TURN = 50
_STEADY = frozenset({RunState.RUNNING, RunState.WAITING})

_Stamp = tuple[tuple[int, int, int], tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class _Look:
    status: RunStatus
    stamp: _Stamp


class RunLooks:
    """Of the runs below one directory. Any thread may ask: what is kept is replaced, never changed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._directories: dict[str, RunDir] = {}
        self._looks: dict[str, _Look] = {}
        self._next = 0

    def directories(self) -> dict[str, RunDir]:
        """The runs that are there, in order of their ids."""
        if not self._directories or not (self._root / MARKS).is_dir():
            found = {one.run_id: one for one in marked_runs(self._root)}
        else:
            known, names = self._directories, sorted(os.listdir(self._root / MARKS))
            listed = {name: known.get(name) or RunDir(self._root / name) for name in names}
            found = {name: one for name, one in listed.items() if os.path.exists(one.launch_file)}
        self._directories = found
        self._looks = {name: look for name, look in self._looks.items() if name in found}
        return found

    def statuses(self, runs: dict[str, RunDir]) -> dict[str, RunStatus]:
        """Of all these."""
        turn = self._turn(len(runs))
        return {run_id: self._status(one, is_due=number in turn) for number, (run_id, one) in enumerate(runs.items())}

    def _turn(self, count: int) -> frozenset[int]:
        """Whose turn it is to be looked at whatever its files say, by their places in the row."""
        first = self._next if self._next < count else 0
        self._next = first + TURN
        return frozenset(range(first, first + TURN))

    def _status(self, run_dir: RunDir, is_due: bool) -> RunStatus:
        stamp, last = _stamp(run_dir), self._looks.get(run_dir.run_id)
        if last is not None and stamp == last.stamp and (not is_due or _is_alive(run_dir)):
            return last.status
        status = _looked_at(run_dir)
        if stamp is not None and status.state in _STEADY:
            self._looks[run_dir.run_id] = _Look(status, stamp)
        else:
            self._looks.pop(run_dir.run_id, None)
        return status


def _looked_at(run_dir: RunDir) -> RunStatus:
    state = _state_of(run_dir)
    words = run_dir.read_reason() if state is RunState.WAITING else ""
    seq = last_report(run_dir.journal, run_dir.run_id)[0]
    return RunStatus(run_id=run_dir.run_id, state=state, last_seq=seq, reason=words)


def _stamp(run_dir: RunDir) -> _Stamp | None:
    """What changes whenever the run tells something or stands somewhere else; nothing where a file is missing."""
    try:
        journal, state = os.stat(run_dir.journal), os.stat(run_dir.state_file)
    except OSError:
        return None
    return (
        (journal.st_ino, journal.st_size, journal.st_mtime_ns),
        (state.st_ino, state.st_size, state.st_mtime_ns),
    )


def _is_alive(run_dir: RunDir) -> bool:
    try:
        return run_dir.is_alive()
    except OSError:
        return False


def _state_of(run_dir: RunDir) -> RunState:
    """Where a run stands; of one whose directory a job has made a mess of, only whether its agent lives."""
    try:
        return run_dir.read_state()
    except OSError:
        _log.warning("the directory of run %s cannot be read", run_dir.run_id, exc_info=True)
        return RunState.RUNNING
