"""The platform's memory behaves the same on SQLite and on PostgreSQL."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import event, inspect, text
from sqlalchemy.exc import IntegrityError

from penstock.control.state.store import Cursor, GrantRow, JobRow, Key, Line, Role, Store, database
from penstock.control.state.store.database import migrate, open_engine
from penstock.control.state.store.tables import metadata
from penstock.core import InputError
from penstock.wire import JobPhase
from tests.control.build import Platform
from tests.control.postgres import postgres

LINE = Line(at=1.5, kind="Ticked", payload={"v": 1, "deep": [1, {"a": None}]}, job_id="j", tenant="t")
ROW = JobRow(
    id="j", number=1, name="n", tenant="t", state="running", spec={"a": [1]}, quote=None, submitted_at=1.0,
    started_at=None, ended_at=None, run_id=None, devices=[], failures=0, reason="", tail=[],
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    where = str(request.getfixturevalue("server"))
    engine = open_engine(where)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return where


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store(url)
    yield opened
    opened.close()


def test_the_migrations_make_exactly_the_tables_we_use(url: str) -> None:
    engine = open_engine(url)
    migrate(engine)
    migrate(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


def test_lines_come_back_in_order_with_numbers(store: Store) -> None:
    last = store.log.append(LINE, replace(LINE, kind="Other", job_id=None, tenant=None))
    assert store.log.append(replace(LINE, at=9.0)) == last + 1
    newest = store.log.last()
    assert newest is not None
    assert (newest.seq, newest.at) == (last + 1, 9.0)
    lines = list(store.log.read())
    assert [line.kind for line in lines] == ["Ticked", "Other", "Ticked"]
    assert replace(lines[0], seq=0) == LINE
    assert [line.seq for line in store.log.read(after=lines[0].seq)] == [line.seq for line in lines[1:]]
    assert [line.seq for line in store.log.page(job_id="j", limit=1)] == [lines[0].seq]
    assert len(store.log.page(tenant="t")) == 2
    assert store.log.page(tenant="other") == []


def test_a_long_log_is_read_in_pages(store: Store) -> None:
    store.log.append(*(replace(LINE, at=float(i)) for i in range(2500)))
    assert [line.at for line in store.log.read()] == [float(i) for i in range(2500)]


def test_an_entry_and_what_belongs_to_it_are_written_together_or_not_at_all(store: Store) -> None:
    key = Key(tenant="t", key="k", fingerprint="f", job_id="j")
    store.log.append(LINE, keys=[key], cursors=[Cursor("j.1", "j", 4)])
    assert store.log.find_key("t", "k") == key
    assert store.log.find_key("other", "k") is None
    with pytest.raises(IntegrityError):
        store.log.append(LINE, keys=[key], cursors=[Cursor("j.1", "j", 9)])
    assert store.log.cursors() == {"j.1": 4}
    assert len(list(store.log.read())) == 1
    store.log.append(LINE, cursors=[Cursor("j.1", "j", 7)])
    assert store.log.cursors() == {"j.1": 7}


def test_jobs_are_listed_newest_first_by_page_and_filter(store: Store) -> None:
    rows = [
        replace(ROW, id=f"j{i}", number=i, tenant="ab"[i % 2], state="finished" if i < 3 else "running", name=f"n{i}")
        for i in range(6)
    ]
    store.jobs.publish(rows, {}, 1.0)
    numbers = [row.number for row in store.jobs.page(limit=4)]
    assert numbers == [5, 4, 3, 2]
    assert [row.number for row in store.jobs.page(after=numbers[-1])] == [1, 0]
    assert [row.number for row in store.jobs.page(tenant="a", states=["running"])] == [4]
    assert [row.number for row in store.jobs.page(name="n1")] == [1]
    store.jobs.publish([replace(rows[0], state="failed", quote={"finish_at": "inf"}, tail=["x"])], {}, 2.0)
    found = store.jobs.find("j0")
    assert found is not None
    assert (found.state, found.quote, found.tail) == ("failed", {"finish_at": "inf"}, ["x"])
    assert store.jobs.find("nobody") is None


def test_giving_up_a_job_changes_only_one_that_has_not_ended(store: Store) -> None:
    ended = replace(ROW, id="ended", number=2, state="finished", ended_at=5.0)
    store.jobs.publish([replace(ROW, devices=[1]), ended], {}, 5.0)
    for job_id in ("j", "ended", "unknown"):
        store.jobs.give_up(job_id, 9.0, "unreadable")
    given_up = replace(ROW, state="failed", ended_at=9.0, reason="unreadable")
    assert [store.jobs.find(job_id) for job_id in ("j", "ended", "unknown")] == [given_up, ended, None]


def test_jobs_were_there_from_their_submission_to_their_end(store: Store) -> None:
    rows = [replace(ROW, id=f"j{at}", number=at, submitted_at=float(at), ended_at=at + 10.0) for at in (0, 10, 20)]
    store.jobs.publish([*rows, replace(ROW, id="open", number=30, submitted_at=30.0)], {}, 1.0)
    for since, until, there in (
        (0.0, 9.0, ["j0"]), (10.0, 10.0, ["j0", "j10"]), (11.0, 30.0, ["j10", "j20", "open"]), (31.0, 99.0, ["open"]),
    ):  # fmt: skip
        assert [row.id for row in store.history.there(since, until, limit=9)] == there
    assert len(store.history.there(0.0, 99.0, limit=2)) == 2


def test_grants_are_a_history_without_gaps(store: Store) -> None:
    first = GrantRow(job_id="j", generation=1, run_id="j.1", kind="gpu", devices=[0], since=1.0)
    second = replace(first, generation=2, devices=[0, 1], since=5.0)
    store.jobs.publish([ROW], {"j": first}, 1.0)
    store.jobs.publish([], {"j": first}, 2.0)
    store.jobs.publish([], {"j": second}, 5.0)
    store.jobs.publish([], {"j": None}, 8.0)
    store.jobs.publish([], {"j": None}, 9.0)
    assert store.jobs.history("j") == [replace(first, until=5.0), replace(second, until=8.0)]


def test_tokens_are_checked_by_their_hash_and_can_be_revoked(store: Store) -> None:
    secret, made = store.tokens.create(name="ada", role=Role.USER, tenant="t", now=1.0)
    other, _ = store.tokens.create(name="root", role=Role.ADMIN, tenant="u", now=2.0)
    assert store.tokens.check(secret) == made
    assert store.tokens.check(secret + "x") is None
    assert [token.name for token in store.tokens.list()] == ["ada", "root"]
    assert [token.name for token in store.tokens.list("u")] == ["root"]
    assert store.tokens.revoke(made.id, 3.0)
    assert not store.tokens.revoke(made.id, 3.0)
    assert store.tokens.check(secret) is None
    assert store.tokens.check(other) is not None


def test_a_whole_platform_lives_and_recovers_on_it(url: str) -> None:
    world = Platform(url)
    job = world.submit(work=100, within=500)
    world.passes(5)
    world.restart()
    world.passes(40)
    assert world.phase(job) is JobPhase.FINISHED
    row = world.journal.store.jobs.find(job)
    assert row is not None
    assert row.state == "finished"
    assert world.journal.store.jobs.history(job)[-1].until is not None
    world.journal.store.close()


def test_secrets_are_nowhere_in_the_file(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/store.db")
    secret, _ = store.tokens.create(name="ada", role=Role.USER, tenant="t", now=1.0)
    store.close()
    with sqlite3.connect(tmp_path / "store.db") as database:
        dump = "\n".join(database.iterdump())
    database.close()
    assert "ada" in dump
    assert secret not in dump
    assert secret.removeprefix("penstock_") not in dump


def test_sqlite_keeps_a_write_ahead_log_and_survives_a_power_cut(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/store.db")
    with engine.connect() as connection:
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"
        assert connection.scalar(text("PRAGMA synchronous")) == 2
    engine.dispose()


def test_only_one_server_may_write_to_a_shared_database(server: str) -> None:
    first = Store(server)
    with pytest.raises(InputError, match="another Penstock server"):
        Store(server)
    first.close()
    Store(server).close()


@pytest.mark.parametrize("url", ["mysql://localhost/x", "penstock.db", "sqlite"])
def test_other_databases_are_refused_with_what_is_allowed(url: str) -> None:
    with pytest.raises(InputError, match="sqlite:///FILE or postgresql"):
        open_engine(url)


def test_a_database_that_cannot_be_opened_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be opened") as caught:
        Store("postgresql://ada:sesame@127.0.0.1:1/none")
    assert "sesame" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be opened"):
        Store(f"sqlite:///{tmp_path}/no/such/folder/x.db")


@pytest.mark.parametrize(
    "words", ["CREATE TABLE leases", "CREATE TABLE outcomes", "ix_grants_until", "UPDATE alembic_version"]
)
def test_an_upgrade_that_is_interrupted_leaves_the_database_as_it_was(url: str, words: str) -> None:
    """At any statement; the next start upgrades it."""

    class Killed(BaseException):
        pass

    def kill(*given: object) -> None:
        if words in str(given[2]):
            raise Killed

    engine = open_engine(url)
    event.listen(engine, "before_cursor_execute", kill)
    with pytest.raises(Killed):
        migrate(engine)
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == []
    engine.dispose()
    Store(url).close()


def test_the_newest_schema_is_that_of_the_last_migration() -> None:
    """A database of that version is opened without the tool that migrates, so the name of a file has to tell it."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(database.__file__).with_name("migrations")))
    assert ScriptDirectory.from_config(config).get_current_head() == database.newest_schema()
