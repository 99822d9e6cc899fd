"""A start from a snapshot is the same start, and whatever is wrong with one only costs time."""

import hashlib
import json
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from sqlalchemy import update

from penstock.control.state.entries import Entry, Ticked
from penstock.control.state.journal import Journal
from penstock.control.state.state_data import StillState, state_to_data
from penstock.control.state.store import Store
from penstock.control.state.store.tables import snapshots as table
from penstock.core import InputError
from penstock.tools import json_pieces
from tests.control.build import ADMIN, Platform, platform
from tests.control.strategies import logs
from tests.control.test_replay import _picture, nobody_decides


@given(logs())
@settings(max_examples=10, deadline=None)
def test_a_start_from_a_snapshot_is_the_same_as_reading_everything(entries: list[Entry]) -> None:
    half = len(entries) // 2
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder)}/log.db"
        first = Journal(Store(url), lambda: 0.0)
        for number, entry in enumerate(entries):
            first.record(entry)
            if number == half:
                first.publish()
                first.keep_snapshot()
        first.publish()
        rows = first.store.jobs.page(limit=1000)
        first.store.close()
        with nobody_decides():
            again = Journal(Store(url), lambda: 0.0)
        assert again._kept == first._kept > 0, "it read everything after all"
        assert state_to_data(again.state) == state_to_data(first.state)
        assert _picture(again.state) == _picture(first.state)
        assert again.store.jobs.page(limit=1000) == rows
        later = Ticked(at=again.state.at + 1000.0)
        again.record(later)
        first.state.apply(later)
        if (decided := first.state.decision(later.at)) is not None:
            first.state.apply(decided)
        assert _picture(again.state) == _picture(first.state)
        again.store.close()


def _busy(world: Platform) -> dict[str, object]:
    world.submit(work=100)
    world.passes(3)
    world.journal.keep_snapshot()
    world.submit(work=100, within=100)
    world.passes(3)
    return _picture(world.journal.state)


def test_a_server_goes_on_from_its_snapshot(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        before = _busy(world)
        world.restart()
        assert world.journal._kept
        assert _picture(world.journal.state) == before
        world.passes(60)
        assert {record.mark for record in world.journal.records()} == {"finished"}


@pytest.mark.parametrize("damage", ["version", "state", "unreadable", "another log"])
@pytest.mark.parametrize("how_many", ["the newest", "both"])
def test_a_snapshot_that_does_not_fit_is_as_if_it_were_not_there(tmp_path: Path, damage: str, how_many: str) -> None:
    with platform(tmp_path) as world:
        world.submit(work=100)
        world.passes(2)
        world.journal.keep_snapshot()
        older = world.journal._kept
        before = _busy(world)
        newest, engine = world.journal._kept, world.journal.store._engine
        hit = (newest,) if how_many == "the newest" else (older, newest)
        wrong = {
            "version": update(table).values(version="older"),
            "state": update(table).values(state=b"half of it"),
            "unreadable": update(table).values(state=b"?", checksum=hashlib.sha256(b"?").hexdigest()),
            "another log": update(table).values(entry="0" * 64),
        }[damage]
        with engine.begin() as connection:
            connection.execute(wrong.where(table.c.seq.in_(hit)))
        world.restart()
        assert world.journal._kept == (older if how_many == "the newest" else 0)
        assert _picture(world.journal.state) == before


def test_a_snapshot_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        _busy(world)
        with world.journal.store._engine.begin() as connection:
            connection.execute(update(table).values(version="3"))
        with pytest.raises(InputError, match="written by a newer version"):
            world.restart()


def test_what_a_snapshot_is_taken_of_is_published_with_it(tmp_path: Path) -> None:
    """Rows that are listed are only rewritten for jobs that changed after the snapshot."""
    with platform(tmp_path) as world:
        job_id = world.submit(work=100)
        assert job_id in world.journal.state.touched
        world.journal.keep_snapshot()
        assert world.journal._kept == world.journal.seq
        assert [row.id for row in world.journal.store.jobs.page()] == [job_id]


def test_no_snapshot_is_kept_of_what_could_not_be_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise InputError("the disk is full", "one with room")

    with platform(tmp_path) as world:
        job_id = world.submit(work=100)
        monkeypatch.setattr(world.journal.store.jobs, "publish", fail)
        with pytest.raises(InputError):
            world.journal.keep_snapshot()
        assert world.journal._kept == 0
        assert job_id in world.journal.state.touched


def test_jobs_that_leave_with_a_snapshot_are_not_in_it(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        job_id = world.submit(work=100)
        kept = world.submit(work=100)
        world.commands.cancel(job_id, ADMIN)
        world.journal.keep_snapshot()
        world.restart()
        assert set(world.journal.state.jobs) == {kept}
        assert world.journal.find(job_id) is not None


def test_a_state_that_stands_still_does_not_follow_the_one_it_was_taken_of(tmp_path: Path) -> None:
    with platform(tmp_path) as world:
        job_id = world.submit(work=100)
        before = state_to_data(world.journal.state)
        still = StillState.of(world.journal.state)
        world.passes(3)
        world.commands.cancel(job_id, ADMIN)
        assert json.loads("".join(json_pieces(still.to_data()))) == json.loads(json.dumps(before))


def test_with_many_jobs_it_is_kept_beside_everything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.control.state.journal._MANY_JOBS", 1)
    with platform(tmp_path) as world:
        world.submit(work=100)
        world.journal.keep_snapshot_aside(every=1)
        for thread in threading.enumerate():
            if thread.name == "snapshot":
                thread.join()
        assert world.journal._kept == world.journal.seq
