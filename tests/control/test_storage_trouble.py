"""A database that is locked, full, frozen or read-only is told within seconds, and health is always answered."""

import errno
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from penstock.client import DataDir
from penstock.control.api import limits
from penstock.control.state.store import TokenRepository, lease
from penstock.core import InputError, StorageError, StorageFullError
from penstock.learn import CostStore
from penstock.wire import UnavailableError
from tests.control.build import Platform, platform
from tests.control.serving import Served, serving, until
from tests.tools.disks import Disk, disk, mounted

__all__ = ["disk"]


@pytest.fixture
def served(world: Platform) -> Iterator[Served]:
    with serving(world) as running:
        yield running


def _elsewhere(world: Platform) -> sqlite3.Connection:
    return sqlite3.connect(world.url.removeprefix("sqlite:///"), isolation_level=None)


def test_a_locked_database_is_told_within_seconds_and_works_again_afterwards(served: Served) -> None:
    with served.http() as http, closing(_elsewhere(served.world)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        refused = http.post("/v1/jobs", json={"work": 5}, timeout=60)
        assert time.monotonic() - began < 20, "three seconds, and what a busy machine adds"
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert "locked" in refused.json()["message"]
        assert refused.headers["retry-after"] == "2"
        assert http.get("/v1/jobs").json()["jobs"] == [], "whoever reads does not wait"
        other.execute("ROLLBACK")
        assert http.post("/v1/jobs", json={"work": 5}).status_code == 201
        assert len(http.get("/v1/jobs").json()["jobs"]) == 1


def test_a_client_asks_again(served: Served) -> None:
    with closing(_elsewhere(served.world)) as other, served.client() as client:
        other.execute("BEGIN IMMEDIATE")
        done: list[Any] = []
        asking = threading.Thread(target=lambda: done.append(client.submit({"work": 5}, key="k")))
        asking.start()
        until(lambda: _refusals(served) >= 1, "the first refusal")
        other.execute("ROLLBACK")
        asking.join(30)
        assert len(done) == 1
        assert len(client.jobs().jobs) == 1


def _refusals(served: Served) -> int:
    with served.http() as http:
        lines = http.get("/metrics").text.splitlines()
    return sum(1 for line in lines if 'code="503"' in line)


def _empty(connection: Any, *_: object) -> None:
    connection.execute("PRAGMA max_page_count = 1073741823")


def test_a_full_disk_is_no_mistake_of_whoever_asks(served: Served) -> None:
    def fill(connection: Any, *_: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    engine = served.world.journal.store._engine
    with served.http() as http:
        event.listen(engine, "checkout", fill)
        statuses = {http.post("/v1/jobs", json={"name": "x" * 150, "work": 5}).status_code for _ in range(40)}
        assert 507 in statuses
        assert statuses <= {201, 507}
        event.remove(engine, "checkout", fill)
        event.listen(
            engine, "checkout", lambda connection, *_: connection.execute("PRAGMA max_page_count = 1073741823")
        )
        assert http.post("/v1/jobs", json={"work": 5}).status_code == 201


def test_a_full_disk_under_what_is_learned_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(sqlite3.OperationalError):
        sqlite_errorcode = sqlite3.SQLITE_FULL

    def connect(*_: object, **__: object) -> sqlite3.Connection:
        raise Full("database or disk is full")

    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(StorageFullError, match="is full"):
        CostStore(tmp_path / "curves.db")


@pytest.mark.parametrize("exhaust", [Disk.fill, Disk.use_up_inodes])
def test_what_is_learned_on_a_disk_without_room_is_not_to_be_moved_away(
    disk: Disk, exhaust: Callable[[Disk], None]
) -> None:
    store = CostStore(disk.path / "curves.db")
    exhaust(disk)
    with pytest.raises(StorageFullError, match="is full") as refused:
        store.adopt("")
    assert "Move" not in str(refused.value)
    disk.free()
    store.adopt("")


@pytest.mark.parametrize("exhaust", [Disk.fill, Disk.use_up_inodes])
def test_a_server_on_a_disk_without_room_is_not_ready(tmp_path: Path, exhaust: Callable[[Disk], None]) -> None:
    stop = threading.Event()
    with mounted(tmp_path / "disk", "4m") as disk, platform(disk.path) as world, serving(world) as served:
        loop = threading.Thread(target=world.reconciler.run, args=(stop, 0.05))
        loop.start()
        try:
            with served.http() as http:
                until(lambda: http.get("/readyz").status_code == 200, "a server that is ready")
                exhaust(disk)
                until(lambda: "is full" in http.get("/readyz").json()["trouble"], "the full disk to be reported")
                assert http.get("/readyz").status_code == 503
                posted = [http.post("/v1/jobs", json={"name": "x" * 150, "work": 5}).status_code for _ in range(40)]
                assert set(posted) <= {201, 507}
                assert (507 in posted) == (exhaust is Disk.fill), "a log that is open needs no inode"
                disk.free()
                until(lambda: http.get("/readyz").status_code == 200, "a server that is ready again")
                assert http.post("/v1/jobs", json={"work": 5}).status_code == 201
        finally:
            stop.set()
            loop.join()


def test_what_is_learned_on_a_disk_that_is_read_only_is_not_the_fault_of_the_request(disk: Disk) -> None:
    store = CostStore(disk.path / "curves.db")
    disk.remount("ro")
    with pytest.raises(StorageError, match="disk that can be read and written") as refused:
        store.adopt("")
    assert refused.value.status == 503
    disk.remount("rw")


def test_health_never_waits_for_the_database(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOOK_UP_S", 1.0)
    thawed = threading.Event()

    def frozen(*_: object) -> None:
        thawed.wait(30)

    monkeypatch.setattr(TokenRepository, "check", frozen)
    with httpx.Client(base_url=served.url, trust_env=False, timeout=20) as http:
        made_up = {"Authorization": "Bearer made-up"}
        answers: list[int] = []
        askers = [
            threading.Thread(target=lambda: answers.append(http.get("/v1/jobs", headers=made_up).status_code))
            for _ in range(60)
        ]
        for asker in askers:
            asker.start()
        until(lambda: len(answers) >= 1, "the first to be told")
        for path, headers in (("/healthz", {}), ("/healthz", made_up), ("/readyz", made_up)):
            assert http.get(path, headers=headers).status_code == 200, "what waits for the database is answered 503"
        for asker in askers:
            asker.join(30)
        thawed.set()
        assert answers == [503] * 60


def test_a_database_that_is_silent_is_not_asked_by_requests(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease.Lease, "silent_s", property(lambda _: 12.0))
    with served.http() as http:
        answer = http.get("/v1/jobs")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        assert "has not answered for 12 s" in answer.json()["message"]
        assert http.get("/healthz").status_code == 200
        ready = http.get("/readyz")
        assert (ready.status_code, ready.json()["trouble"]) == (503, "the database has not answered for 12 s")


def test_a_disk_that_fills_under_a_request_is_told(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(served.world.platform, "quote", full)
    with served.http() as http:
        assert http.post("/v1/quote", json={}).status_code == 507


def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "server.lock").mkdir()
    with pytest.raises(InputError, match="cannot be written"), DataDir(tmp_path).held():
        pass


def test_nothing_is_half_written_when_the_database_is_locked(world: Platform) -> None:
    with closing(_elsewhere(world)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnavailableError, match="locked"):
            world.submit(work=5)
        assert world.journal.state.jobs == {}
        other.execute("ROLLBACK")
    world.submit(work=5)
    assert len(world.journal.state.jobs) == 1
