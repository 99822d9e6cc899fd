"""Jobs that are over leave memory and stay within reach; the log loses what nobody reads; starts stay short."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from penstock.control.state import journal as journal_module
from penstock.control.state.entries import Configured, Entry, Launched, Recipe, RunFinished, Submitted
from penstock.control.state.journal import UNREAD, Journal
from penstock.control.state.reading import read_log
from penstock.control.state.state_data import state_to_data
from penstock.control.state.store import Store
from penstock.control.state.store.tables import snapshots
from penstock.core import InputError, Job, Node, Work
from penstock.wire import ConflictError, JobPhase
from tests.control.build import ADMIN, PROPORTIONAL, Platform, platform
from tests.control.test_replay import nobody_decides

JOBS, TOGETHER = 1_000, 50


@pytest.fixture
def memory() -> Iterator[Path]:
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield Path(folder)


def test_a_finished_job_is_out_of_memory_and_within_reach(world: Platform) -> None:
    job, other = world.submit(name="short", work=100), world.submit(work=400, at_most=1)
    world.passes(60)
    assert list(world.journal.state.jobs) == [other]
    shown, why = world.platform.job(job, ADMIN), world.platform.why(job, ADMIN)
    assert (shown.state, shown.name, shown.run_id) == ("finished", "short", f"{job}.1")
    assert [note.text for note in why.entries][-1] == "finished"
    assert world.platform.job_report(job, ADMIN).state == "finished"
    assert world.platform.period_report(ADMIN, since="1h").jobs.finished == 1
    assert world.platform.overview(ADMIN).counts == {"finished": 1, "running": 1}
    assert [event.kind for event in world.platform.events(ADMIN, job).events] == [
        "Submitted", "Launched", "RunFinished",
    ]  # fmt: skip
    with pytest.raises(ConflictError, match="finished and cannot be cancelled"):
        world.commands.cancel(job, ADMIN)
    world.restart()
    assert list(world.journal.state.jobs) == [other]
    again = world.platform.job(job, ADMIN)
    assert again.model_copy(update={"progress": None}) == shown.model_copy(update={"progress": None})
    assert world.platform.why(job, ADMIN) == why
    assert world.journal.store.log.cursors().keys() == {f"{other}.1"}


def test_a_run_that_outlives_its_job_still_holds_its_devices(world: Platform) -> None:
    """A cancelled job is archived at once; until its run has let go, nobody is started on its devices."""
    first = world.submit(work=100)
    world.passes(2)
    world.backend.refuse["stop"] = InputError("not now")
    world.commands.cancel(first, ADMIN)
    world.passes(2)
    assert world.journal.state.jobs == {}
    second = world.submit(work=100)
    world.passes(5)
    world.restart()
    world.passes(3)
    assert world.backend.alive() == [f"{first}.1"]
    del world.backend.refuse["stop"]
    world.passes(4)
    assert world.backend.alive() == [world.record(second).run_id]


def _lives(first: int, at: float) -> tuple[list[Entry], list[Entry]]:
    """Jobs that come together, and what becomes of them."""
    jobs = [
        Job(id=f"j-{n}", work=Work(1.0), curve=PROPORTIONAL, at_most=1, submitted_at=at)
        for n in range(first, first + TOGETHER)
    ]
    recipe = Recipe(command=("train",), fingerprint="f")
    come: list[Entry] = [Submitted(at=at, job=job, name=job.id, recipe=recipe, spec={"work": 1}) for job in jobs]
    go: list[Entry] = []
    for job in jobs:
        go.append(Launched(at=at + 0.5, job_id=job.id, run_id=f"{job.id}.1"))
        go.append(RunFinished(at=at + 1.0, job_id=job.id, run_id=f"{job.id}.1"))
    return come, sorted(go, key=lambda entry: entry.at)


def test_a_thousand_jobs_leave_a_small_memory_and_a_short_start(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.control.state.store.compaction.NEWEST_KEPT", 400)
    url = f"sqlite:///{memory}/penstock.db"
    journal = Journal(Store(url), lambda: 0.0)
    journal.record(Configured(at=0.0, nodes=(Node(name="n", device_count=TOGETHER),), policy="fifo"))
    most = 0
    for number in range(0, JOBS, TOGETHER):
        come, go = _lives(number, number / 10)
        journal.record(*come)
        for entry in go[:: TOGETHER // 4]:
            journal.record(entry)
        journal.record(*(entry for entry in go if entry not in go[:: TOGETHER // 4]))
        most = max(most, len(journal.state.jobs))
        journal.publish()
        journal.keep_snapshot(every=200)
        while journal.compact():
            pass
    assert most <= 2 * TOGETHER
    assert journal.state.jobs == {}
    assert journal.state.kin == {}
    before = state_to_data(journal.state)
    journal.store.close()
    store = Store(url)
    with nobody_decides():
        found = read_log(store)
    assert found.seq - found.snapshot_seq < 400
    assert state_to_data(Journal(store, lambda: 0.0).state) == before
    assert len(list(store.archive.read())) == JOBS
    kinds = Counter(line.kind for line in store.log.read())
    assert kinds["Submitted"] == kinds["RunFinished"] == JOBS
    up_to, removed = store.compaction.progress()
    assert removed > 20
    assert not [line for line in store.log.read() if line.kind in UNREAD and line.seq <= up_to]
    store.close()


def test_a_compacted_log_without_a_snapshot_is_refused_and_not_half_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.control.state.store.compaction.NEWEST_KEPT", 0)
    with platform(tmp_path) as world:
        for _ in range(3):
            world.submit(work=100)
            world.passes(3)
            world.journal.keep_snapshot()
        assert world.journal.compacted > 0, "the loop does it by itself"
        assert world.journal.compact() > 0
        assert world.journal.compact() == 0
        world.restart()
        world.passes(120)
        assert {record.mark for record in world.journal.records()} == {JobPhase.FINISHED}
        with world.journal.store._engine.begin() as connection:
            connection.execute(snapshots.delete())
        with pytest.raises(InputError, match="no snapshot can be read"):
            world.restart()


def test_short_logs_stay_whole(world: Platform) -> None:
    world.submit(work=100)
    world.passes(40)
    for _ in range(3):
        world.journal.keep_snapshot()
        assert world.journal.compact() == 0
    assert journal_module.UNREAD == ("Decided", "Ticked")
    assert "Decided" in {line.kind for line in world.journal.store.log.read()}
