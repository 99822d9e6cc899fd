"""A start from a snapshot is the same start, and whatever is wrong with one only costs time."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from sqlalchemy import update

from penstock.control.state import snapshots
from penstock.control.state.entries import Entry, Ticked
from penstock.control.state.journal import Journal
from penstock.control.state.store import Store
from penstock.control.state.store.tables import events
from penstock.control.state.store.tables import snapshots as table
from tests.control.build import Platform, platform
from tests.control.strategies import logs
from tests.control.test_replay import _picture


@given(logs())
@settings(max_examples=15, deadline=None)
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
        again = Journal(Store(url), lambda: 0.0)
        assert again._kept == half + 1, "it read everything after all"
        assert _picture(again.state) == _picture(first.state)
        assert again.store.jobs.page(limit=1000) == rows
        again.state.scheduler.twin()
        again.record(Ticked(at=again.state.at + 1000.0))
        first.state.apply(Ticked(at=first.state.at + 1000.0))
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
        assert {world.phase(job) for job in world.journal.state.jobs} == {"finished"}


@pytest.mark.parametrize("damage", ["version", "state", "unreadable", "another log"])
def test_a_snapshot_that_does_not_fit_is_as_if_there_were_none(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with platform(tmp_path) as world:
        before = _busy(world)
        seq, engine = world.journal._kept, world.journal.store._engine
        with engine.begin() as connection:
            if damage == "version":
                connection.execute(update(table).values(version="older"))
            elif damage == "state":
                connection.execute(update(table).values(state=b"half of it"))
            elif damage == "another log":
                connection.execute(update(events).where(events.c.seq == seq).values(at=1.0))
        if damage == "unreadable":
            monkeypatch.setattr(snapshots.pickle, "loads", lambda _: 1 / 0)
        if damage == "another log":
            assert snapshots.load(world.journal.store) is None
            return
        world.restart()
        assert world.journal._kept == 0
        assert _picture(world.journal.state) == before


def test_a_snapshot_is_not_taken_of_what_is_not_published_yet(tmp_path: Path) -> None:
    """Rows that are listed are only rewritten for jobs that changed after the snapshot."""
    with platform(tmp_path) as world:
        world.submit(work=100)
        world.journal.state.touched.add(next(iter(world.journal.state.jobs)))
        world.journal.keep_snapshot()
        assert world.journal._kept == 0
