"""Reading the log again gives the same platform, whatever is in the log."""

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings

from penstock.control.state.entries import Entry
from penstock.control.state.journal import Journal
from penstock.control.state.platform_state import PlatformState, replay
from penstock.control.state.store import Store
from penstock.core import JobSubmitted, Tick
from penstock.core.codec import decode, encode
from penstock.scheduler.invariants import check_holdings
from tests.control.build import PROPORTIONAL
from tests.control.strategies import logs
from tests.scheduler.build import job


def _picture(state: PlatformState) -> dict[str, object]:
    """Everything that can be told about a state from outside."""
    return {
        "at": state.at,
        "wake_at": state.wake_at,
        "absent": state.absent,
        "wanted": state.wanted(),
        "phases": {record.id: state.phase(record) for record in state.jobs.values()},
        "records": {record.id: repr(record) for record in state.jobs.values()},
        "stories": {record.id: str(state.story(record)) for record in state.jobs.values()},
        "remaining": {record.id: state.remaining(record, state.at + 7.0) for record in state.jobs.values()},
    }


def _check(state: PlatformState) -> None:
    """The books of the scheduler and ours agree on who holds what, and nobody holds what another holds.

    Promises are not looked at: these logs do not wake the scheduler when it asks to be woken.
    """
    check_holdings(state.scheduler._state.holdings, state.at, promises_bind=False)
    used: list[int] = []
    for record in state.jobs.values():
        held = record.grant.devices if record.grant is not None else ()
        if record.mark is None:
            assert state.scheduler.devices_of(record.core_id) == held
        else:
            assert held == ()
        if record.grant is not None and len(record.workers) == record.grant.width:
            assert sorted(worker.place for worker in record.workers) == sorted(record.places)
            assert record.places == state._places(record.grant)
            assert [worker.rank for worker in record.workers] == list(range(len(held)))
        used += held
    assert len(used) == len(set(used))


@given(logs())
@settings(max_examples=40, deadline=None)
def test_a_log_read_again_tells_the_same(entries: list[Entry]) -> None:
    state = PlatformState()
    for entry in entries:
        state.apply(entry)
        _check(state)
    written = json.loads(json.dumps([encode(entry) for entry in entries]))
    assert _picture(replay(decode(line) for line in written)) == _picture(state)


@given(logs())
@settings(max_examples=5, deadline=None)
def test_a_journal_opened_again_tells_the_same(entries: list[Entry]) -> None:
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder)}/log.db"
        first = Journal(Store(url), lambda: 0.0)
        for entry in entries:
            first.record(entry)
        first.publish()
        before = {row.id: row for row in first.store.jobs.page(limit=1000)}
        first.store.close()
        again = Journal(Store(url), lambda: 0.0)
        assert _picture(again.state) == _picture(first.state)
        assert {row.id: row for row in again.store.jobs.page(limit=1000)} == before
        again.store.close()


@given(logs())
@settings(max_examples=25, deadline=None)
def test_a_rehearsal_changes_nothing_and_tells_the_truth(entries: list[Entry]) -> None:
    state = replay(entries)
    before = _picture(state)
    stage = state.scheduler.twin()
    asked = JobSubmitted(state.at, job("rehearsed", 50.0, curve=PROPORTIONAL, submitted_at=state.at))
    rehearsed = [stage.handle(asked), stage.handle(Tick(state.at + 60.0)), stage.handle(Tick(state.at + 600.0))]
    assert _picture(state) == before
    real = state.scheduler
    assert [real.handle(asked), real.handle(Tick(state.at + 60.0)), real.handle(Tick(state.at + 600.0))] == rehearsed
    assert not math.isnan(real.now)
