"""One writer per database: a lease that survives restarts of the database and fences whoever lost it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.control.state.store import Line, Role, Store, lease
from penstock.core import InputError
from penstock.wire import UnavailableError
from tests.control.build import Platform, platform
from tests.control.postgres import PostgresServer, postgres_server
from tests.control.serving import serving, until

LINE = Line(at=1.0, kind="Ticked", payload={"v": 2, "type": "Ticked", "at": 1.0})


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return str(request.getfixturevalue("server").url)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> float:
    """Leases that last a second."""
    monkeypatch.setattr(lease, "RENEW_S", 0.1)
    monkeypatch.setattr(lease, "LEASE_S", 1.0)
    return 1.0


def test_a_second_server_is_refused_and_the_name_of_the_first_is_told(url: str) -> None:
    first = Store(url, holder="host /srv/one")
    with pytest.raises(InputError, match=r"another Penstock server uses this database \(host /srv/one\)"):
        Store(url, holder="host /srv/two")
    first.log.append(LINE)
    first.close()
    Store(url, holder="host /srv/two").close()


def test_whoever_lost_the_lease_writes_nothing_and_reads_nothing(url: str) -> None:
    stopped = Store(url, holder="same directory")
    written = stopped.log.append(LINE)
    successor = Store(url, holder="same directory")
    with pytest.raises(lease.LeaseLostError, match="another Penstock server has claimed the database"):
        stopped.log.append(LINE)
    for change in (
        lambda: stopped.tokens.create(name="a", role=Role.USER, tenant="t", now=1.0),
        lambda: stopped.jobs.publish([], {}, 1.0),
        lambda: stopped.compaction.step(["Ticked"]),
        stopped.lease.renew,
        stopped.log.last,
    ):
        with pytest.raises(lease.LeaseLostError):
            change()
    stopped.close()
    last = successor.log.last()
    assert last is not None
    assert last.seq == written
    assert successor.log.append(LINE) == written + 1
    successor.close()


def test_a_restart_of_the_database_lets_no_second_server_in(server: PostgresServer, brief: float) -> None:
    first = Store(server.url, holder="first")
    with first.lease.kept():
        before = first.log.append(LINE)
        server.restart()
        with pytest.raises(InputError, match="another Penstock server uses this database"):
            Store(server.url, holder="second", patience_s=brief)
        until(lambda: _appends(first), "the first server to write again")
        assert not first.lease.lost
    last = first.log.last()
    assert last is not None
    assert last.seq > before
    first.close()


def _appends(store: Store) -> bool:
    try:
        return bool(store.log.append(LINE))
    except UnavailableError:
        return False


def test_a_holder_that_is_silent_for_the_length_of_a_lease_is_replaced(url: str, brief: float) -> None:
    dead = Store(url, holder="dead")
    with pytest.raises(InputError, match="another Penstock server"):
        Store(url, holder="impatient")
    heir = Store(url, holder="heir", patience_s=brief)
    assert _appends(heir)
    with pytest.raises(lease.LeaseLostError):
        dead.log.append(LINE)
    dead.close()
    assert _appends(heir), "closing what was lost releases nothing"
    heir.close()


def test_a_database_that_is_down_is_told_and_nothing_is_carried_out_meanwhile(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEW_S", 0.1)
    monkeypatch.setattr(lease, "LEASE_S", 0.5)
    world = Platform(server.url)
    world.submit(work=100)
    with world.journal.store.lease.kept():
        server.stop()
        try:
            until(lambda: world.journal.store.lease.silent_s > 0.5, "the silence to be noticed")
            with pytest.raises(UnavailableError, match="has not answered for"):
                world.step()
            with pytest.raises(UnavailableError, match="does not answer"):
                world.submit(work=100)
            assert world.backend.alive() == []
        finally:
            server.start()
        until(lambda: world.journal.store.lease.silent_s == 0.0, "the lease to be renewed")
        world.passes(2)
        assert len(world.backend.alive()) == 1
    world.journal.store.close()


def test_a_server_that_lost_its_database_says_so_to_everybody(tmp_path: Path) -> None:
    with platform(tmp_path) as world, serving(world) as served, served.http() as client:
        world.submit(work=100)
        assert client.get("/v1/jobs").status_code == 200
        successor = Store(world.url, holder=world.journal.store.lease.holder)
        with pytest.raises(lease.LeaseLostError):
            world.step()
        answer = client.get("/v1/jobs")
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert "another Penstock server" in answer.json()["message"]
        assert int(answer.headers["retry-after"]) >= 1
        assert client.get("/healthz").status_code == 200
        successor.close()
