"""Reading the log again gives the same platform, whatever is in the log, and asks nobody."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from penstock.control.state.entries import Entry
from penstock.control.state.journal import Journal
from penstock.control.state.platform_state import PlatformState, replay
from penstock.control.state.state_data import record_to_data, state_from_data, state_to_data
from penstock.control.state.store import Store
from penstock.core import JobSubmitted, Tick
from penstock.core.codec import decode, encode
from penstock.placement import PLACEMENTS, placement_named
from penstock.policies import POLICIES, MeasureFirst
from penstock.scheduler.invariants import check_holdings
from tests.control.build import PROPORTIONAL
from tests.control.strategies import logs
from tests.scheduler.build import job
from tests.tools.examples import examples


def live(entries: list[Entry]) -> tuple[PlatformState, list[Entry]]:
    """The state as it comes about while things happen, and the log that is written meanwhile."""
    state, log = PlatformState(), list[Entry]()
    for entry in entries:
        state.apply(entry)
        log.append(entry)
        if (decided := state.decision(entry.at)) is not None:
            state.apply(decided)
            log.append(decided)
        _check(state)
    return state, log


@contextmanager
def nobody_decides() -> Iterator[None]:
    """Whoever is asked for a decision fails."""

    def fail(*_: object) -> None:
        raise AssertionError("reading a log asked for a decision")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MeasureFirst, "admit", fail)
        for policy in POLICIES.values():
            patch.setattr(policy, "admit", fail)
            patch.setattr(policy, "allocate", fail)
        for placement in map(type, map(placement_named, PLACEMENTS)):
            patch.setattr(placement, "place", fail)
        yield


def _picture(state: PlatformState) -> dict[str, object]:
    """Everything that can be told about a state from outside."""
    return {
        "at": state.at,
        "wake_at": state.wake_at,
        "absent": state.absent,
        "wanted": state.wanted(),
        "phases": {record.id: state.phase(record) for record in state.jobs.values()},
        "records": {record.id: record_to_data(record) for record in state.jobs.values()},
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
        if record.displaced:
            assert state.scheduler.devices_of(record.id) == ()
            continue
        if record.mark is None:
            assert state.scheduler.devices_of(record.id) == held
        else:
            assert held == ()
        if record.grant is not None and len(record.workers) == record.grant.width:
            assert sorted(worker.place for worker in record.workers) == sorted(record.places)
            assert record.places == state.places(record.grant)
            assert [worker.rank for worker in record.workers] == list(range(len(held)))
        used += held
    assert len(used) == len(set(used))


@given(logs())
@settings(max_examples=examples(8, 25), deadline=None)
def test_a_log_read_again_tells_the_same_and_asks_nobody(entries: list[Entry]) -> None:
    state, log = live(entries)
    written = json.loads(json.dumps([encode(entry) for entry in log]))
    with nobody_decides():
        again = replay(decode(line) for line in written)
    assert state_to_data(again) == state_to_data(state)
    assert _picture(again) == _picture(state)


@given(logs())
@settings(max_examples=examples(6, 15), deadline=None)
def test_a_state_put_away_as_data_comes_back_bit_for_bit_and_goes_on_alike(entries: list[Entry]) -> None:
    half = len(entries) // 2
    whole, log = live(entries)
    first = replay(log[:half])
    again = state_from_data(json.loads(json.dumps(state_to_data(first))))
    assert state_to_data(again) == state_to_data(first)
    with nobody_decides():
        for entry in log[half:]:
            again.apply(entry)
    assert state_to_data(again) == state_to_data(whole)
    assert _picture(again) == _picture(whole)
    later = whole.at + 1000.0
    assert again.decision(later) == whole.decision(later)


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
        with nobody_decides():
            again = Journal(Store(url), lambda: 0.0)
        assert _picture(again.state) == _picture(first.state)
        assert {row.id: row for row in again.store.jobs.page(limit=1000)} == before
        again.store.close()


@given(logs())
@settings(max_examples=examples(6, 15), deadline=None)
def test_a_rehearsal_changes_nothing_and_tells_the_truth(entries: list[Entry]) -> None:
    state, _ = live(entries)
    before = _picture(state)
    stage = state.scheduler.twin()
    asked = JobSubmitted(state.at, job("rehearsed", 50.0, curve=PROPORTIONAL, submitted_at=state.at))
    rehearsed = [stage.handle(asked), stage.handle(Tick(state.at + 60.0)), stage.handle(Tick(state.at + 600.0))]
    assert _picture(state) == before
    real = state.scheduler
    assert [real.handle(asked), real.handle(Tick(state.at + 60.0)), real.handle(Tick(state.at + 600.0))] == rehearsed
    assert not math.isnan(real.now)
