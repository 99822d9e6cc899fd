"""What makes years of use cheap is exact: counts, outcomes and reports say what the whole records say."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, func, select, text, update

from penstock.control.platform.reports import _happenings
from penstock.control.reports.period import KINDS, Evidence, JobFacts, period_report
from penstock.control.state import upkeep
from penstock.control.state.entries import Progressed
from penstock.control.state.store import Principal, Role, Search, database
from penstock.control.state.store.tables import events, job_counts, jobs, outcomes
from penstock.wire import JobPhase, PeriodReport
from tests.control.build import ADMIN, Platform, platform
from tests.control.postgres import postgres


def _live(world: Platform) -> None:
    """Jobs of two tenants that finish, fail, are retried, refused, cancelled, paused and late."""
    red = Principal(id="r", name="red", role=Role.USER, tenant="red")
    world.submit(work=40, within=400)
    failing = world.submit(work=60, retries=1, backoff=1.0)
    late = world.submit(red, work=80, within=150)
    world.submit(red, work=10_000, within=20)
    world.passes(4)
    world.backend.fail(f"{failing}.1")
    world.backend.vanish(f"{late}.1")
    world.passes(30)
    world.commands.cancel(world.submit(red, work=500, within=4000), red)
    world.commands.pause(world.submit(work=500), ADMIN)
    world.passes(400, every=4.0)
    world.submit(work=5_000)
    world.passes(3)


def _old_way(world: Platform, since: float, until: float) -> PeriodReport:
    """From whole records and every line."""
    journal = world.journal
    with journal.reading() as state:
        facts = [JobFacts.of(record, state, journal.now()) for record in journal.records()]
        cluster, tenants = state.scheduler.cluster, state.scheduler.tenants(until)
    happenings = _happenings(line for line in journal.store.log.read() if line.kind in KINDS)
    return period_report(
        Evidence(
            since=since, until=until, tenant=None, jobs=facts, cluster=cluster,
            holdings=journal.store.history.holdings(since, until),
            happenings=[entry for entry in happenings if since <= entry.at <= until],
            fairness=dict(zip(tenants.names, (tenants.used_lately / tenants.deserved_lately).tolist(), strict=True)),
        )
    )  # fmt: skip


@pytest.mark.parametrize("days", [1.0, 0.001])
def test_a_report_is_the_same_as_one_from_whole_records(world: Platform, days: float) -> None:
    start = world.clock.time
    _live(world)
    now = world.journal.now()
    since = max(start - 1.0, now - days * 86400)
    report = world.platform.period_report(ADMIN, since=f"{now - since}s")
    assert report == _old_way(world, report.since.timestamp(), now)
    if days >= 1:
        assert report.jobs.finished
        assert report.failures.by_reason
        assert report.promises.made
        assert _held_by_tenant(world, now) == pytest.approx(
            {each.tenant: each.device_seconds for each in report.tenants}
        )


def _held_by_tenant(world: Platform, now: float) -> dict[str, float]:
    """As the account says from which fairness is told."""
    with world.journal.reading() as state:
        tenants = state.scheduler.tenants(now)
    return dict(zip(tenants.names, tenants.used_lately.tolist(), strict=True))


def _counted(engine: Engine) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    with engine.connect() as connection:
        by_row = select(jobs.c.state, jobs.c.tenant, func.count()).group_by(jobs.c.state, jobs.c.tenant)
        real = Counter({(state, tenant): many for state, tenant, many in connection.execute(by_row)})
        kept = Counter({(row.state, row.tenant): row.many for row in connection.execute(select(job_counts))})
    return real, +kept


def test_counts_are_those_of_the_rows(world: Platform) -> None:
    _live(world)
    real, kept = _counted(world.journal.store._engine)
    assert real == kept
    assert {state for state, _ in real} >= {"finished", "cancelled", "declined", "paused"}
    history = world.journal.store.history
    for wanted in (Search(), Search(tenant="red"), Search(states=["finished", "paused"]), Search(text="job")):
        matches = history.search(wanted)
        assert matches.total == len(matches.rows)
    both = world.journal.store.jobs.page(states=["finished", "cancelled"], limit=3)
    assert [row.number for row in both] == sorted((row.number for row in both), reverse=True)
    assert {row.state for row in both} <= {"finished", "cancelled"}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/penstock.db"
        return
    with postgres() as server:
        yield server


def test_an_upgrade_makes_the_same_outcomes_and_counts_from_what_is_archived(url: str) -> None:
    world = Platform(url)
    _live(world)
    engine = world.journal.store._engine
    with engine.connect() as connection:
        before = sorted(connection.execute(select(outcomes)).all())
    assert len(before) >= 4
    config = Config()
    config.set_main_option("script_location", str(Path(database.__file__).with_name("migrations")))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0005")
    world.restart()
    engine = world.journal.store._engine
    with engine.connect() as connection:
        assert sorted(connection.execute(select(outcomes)).all()) == before
    real, kept = _counted(engine)
    assert real == kept
    world.journal.store.close()


def test_entries_of_earlier_versions_get_checksums_and_old_damage_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "EVERY_S", 0.0)
    monkeypatch.setattr(upkeep, "AT_ONCE", 3)
    with platform(tmp_path) as world:
        job = world.submit(work=100)
        world.passes(40)
        world.journal.keep_snapshot()
        with world.journal.store._engine.begin() as connection:
            connection.execute(update(events).values(checksum=None))
        world.restart()
        world.passes(10)
        assert all(line.checksum and line.intact for line in world.journal.store.log.read())
        with world.journal.store._engine.begin() as connection:
            line = connection.execute(select(events).where(events.c.kind == "Launched")).one()
            change = text("UPDATE events SET payload = :payload WHERE seq = :seq")
            connection.execute(change, {"payload": json.dumps({**line.payload, "at": 7.0}), "seq": line.seq})
        world.restart()
        assert world.journal.warnings == []
        world.passes(20)
        assert f"Launched (event {line.seq})" in world.journal.warnings[0]
        assert len(world.journal.quarantine) == 1
        assert world.phase(job) is JobPhase.FINISHED


def test_old_corrections_leave_the_log_and_what_happened_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "EVERY_S", 0.0)
    monkeypatch.setattr("penstock.control.state.store.compaction.NEWEST_KEPT", 0)
    with platform(tmp_path) as world:
        job = world.submit(work=100)
        world.passes(2)
        world.journal.record(Progressed(at=world.clock.time, job_id=job, remaining=50.0))
        world.passes(60)
        _snapshots(world)
        assert "Progressed" in _kinds(world)
        world.clock.time += upkeep.KEPT_S + 86400
        world.submit(work=100)
        world.passes(3)
        _snapshots(world)
        world.passes(2)
        assert "Progressed" not in _kinds(world)
        assert {"Submitted", "Launched", "RunFinished"} <= _kinds(world)
        world.restart()
        assert world.phase(job) is JobPhase.FINISHED


def _snapshots(world: Platform) -> None:
    for _ in range(2):
        world.submit(work=1)
        world.passes(3)
        world.journal.keep_snapshot()
    while world.journal.compact():
        pass


def _kinds(world: Platform) -> set[str]:
    return {line.kind for line in world.journal.store.log.read()}
