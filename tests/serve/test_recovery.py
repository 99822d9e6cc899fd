"""Lost, old and damaged databases are told and never passed over; backups while running, and the way back."""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client import DataDir
from penstock.control import DamagedError, Principal, Role
from penstock.core import InputError, PenstockError
from penstock.serve import Config, back_up_platform, restore_platform
from penstock.serve.assembly import Assembly, assembled
from tests.control.postgres import postgres
from tests.control.serving import end_everything_on, until

SLOW = """
import time
for step in range(1000):
    print(f"penstock: step={step} total=1000", flush=True)
    time.sleep(0.05)
"""
OWNER = Principal(id="o", name="owner", role=Role.ADMIN, tenant="default")


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Config]:
    yield Config(data_dir=tmp_path / "data", slots=2)
    end_everything_on(tmp_path / "data")


@contextlib.contextmanager
def started(config: Config, **changes: Any) -> Iterator[Assembly]:
    """A server without its socket."""
    settings = Config(data_dir=config.data_dir, slots=config.slots, **({"database": config.database} | changes))
    place = DataDir(settings.data_dir)
    with place.held(), assembled(settings, place) as parts:
        yield parts


def _submit(parts: Assembly, folder: Path, script: str) -> str:
    name = f"train{abs(hash(script))}.py"
    (folder / name).write_text(script)
    spec = {"script": name, "work": "100 steps", "environment": {"working_dir": str(folder)}, "devices": 1}
    return parts.platform.submit(spec, OWNER).job.id


def _pass_until(parts: Assembly, condition: Callable[[], bool], what: str) -> None:
    def looked() -> bool:
        parts.reconciler.step()
        return condition()

    until(looked, what, 60)


def _state(parts: Assembly, job: str) -> str:
    return parts.platform.job(job, OWNER).state


def _one_finished(config: Config, folder: Path) -> str:
    with started(config) as parts:
        job = _submit(parts, folder, "print('hello')")
        _pass_until(parts, lambda: _state(parts, job) == "finished", "its end")
    return job


def _lose(config: Config) -> None:
    for end in ("", "-wal", "-shm"):
        (config.data_dir / f"penstock.db{end}").unlink(missing_ok=True)


@pytest.mark.parametrize("noted", [True, False])
def test_a_deleted_database_is_missed(config: Config, tmp_path: Path, noted: bool) -> None:
    _one_finished(config, tmp_path)
    _lose(config)
    if not noted:
        (config.data_dir / "history.seq").unlink()
    message = "its log had come to entry" if noted else "directories of runs lie in"
    missing = f"history is missing: the database ends at entry 0, but .*{message}"
    with pytest.raises(InputError, match=missing) as caught, started(config):
        pass
    for word in ("penstock restore", "--recover", "--accept-loss"):
        assert word in str(caught.value)
    with started(config, accept_loss=True) as parts:
        assert parts.platform.jobs(OWNER).jobs == []
    with started(config):
        pass


def test_an_older_database_is_missed_too(config: Config, tmp_path: Path) -> None:
    with started(config):
        pass
    early, _ = back_up_platform(config)
    _one_finished(config, tmp_path)
    with (
        contextlib.closing(sqlite3.connect(early)) as old,
        contextlib.closing(sqlite3.connect(config.data_dir / "penstock.db")) as new,
    ):
        old.backup(new)
    with pytest.raises(InputError, match="history is missing"), started(config):
        pass


def test_runs_tell_of_jobs_that_nobody_knows_any_more(config: Config, tmp_path: Path) -> None:
    finished = _one_finished(config, tmp_path)
    with started(config) as parts:
        going_on = _submit(parts, tmp_path, SLOW)
        _pass_until(
            parts,
            lambda: _state(parts, going_on) == "running" and bool(parts.journal.state.jobs[going_on].runs),
            "its start",
        )
    _lose(config)
    with started(config, recover=True) as parts:
        listed = {job.id: job for job in parts.platform.jobs(OWNER).jobs}
        assert set(listed) == {finished, going_on}
        assert listed[finished].state == "failed"
        assert listed[finished].reason == "its history was lost; only its output is left"
        assert "hello" in parts.platform.logs(finished, OWNER).text
        assert listed[going_on].state == "paused"
        assert "history was lost" in str(parts.platform.why(going_on, OWNER))
        run = f"{going_on}.1"
        _pass_until(parts, lambda: run not in _alive(parts), "its run to end")
        parts.platform.resume(going_on, OWNER)
        _pass_until(parts, lambda: f"{going_on}.2" in _alive(parts), "its next run")
        parts.platform.cancel(going_on, OWNER)
    with started(config) as parts:
        assert {job.id for job in parts.platform.jobs(OWNER).jobs} == {finished, going_on}


def _alive(parts: Assembly) -> set[str]:
    return {status.run_id for status in parts.reconciler.backend.runs() if status.alive}


def _told(parts: Assembly) -> list[dict[str, Any]]:
    return [job.model_dump() for job in parts.platform.jobs(OWNER).jobs]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_backup_of_a_running_server_is_whole_and_comes_back(tmp_path: Path, kind: str) -> None:
    """Somebody writes all the time; the backup is one moment of it. It is restored into the other kind of database."""
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(postgres())
        config = Config(data_dir=tmp_path / "data", slots=2, database="" if kind == "sqlite" else url)
        job = _one_finished(config, tmp_path)
        with started(config) as parts:
            stop, token = threading.Event(), parts.journal.store.tokens

            def write() -> None:
                while not stop.is_set():
                    token.create(name="busy", role=Role.USER, tenant="default", now=1.0)

            writer = threading.Thread(target=write)
            writer.start()
            target, summary = back_up_platform(config)
            stop.set()
            writer.join()
            told, last, owner = _told(parts), parts.journal.seq, DataDir(config.data_dir).owner_token()
        assert summary.damaged == ()
        assert (summary.jobs, summary.last_seq) == (1, last)
        assert target.stat().st_mode & 0o077 == 0
        elsewhere = Config(data_dir=tmp_path / "other", slots=2, database=url if kind == "sqlite" else "")
        assert restore_platform(elsewhere, target) is None
        DataDir(elsewhere.data_dir).keep_owner_token(str(owner))
        with started(elsewhere) as parts:
            assert _told(parts) == told
            assert parts.platform.authenticate(str(owner)).name == "owner"
            assert parts.platform.job(job, OWNER).state == "finished"
            again = _submit(parts, tmp_path, "print('again')")
            _pass_until(parts, lambda: _state(parts, again) == "finished", "a job after the restoration")


def test_restoring_keeps_what_was_there_and_needs_the_server_to_be_down(config: Config, tmp_path: Path) -> None:
    job = _one_finished(config, tmp_path)
    target, _ = back_up_platform(config, tmp_path / "copy.db")
    with started(config), pytest.raises(PenstockError, match="already served"):
        restore_platform(config, target)
    (config.data_dir / "penstock.db").write_bytes(b"not a database at all, " * 1000)
    before = restore_platform(config, target)
    assert before is not None
    assert before.read_bytes().startswith(b"not a database")
    with started(config) as parts:
        assert _state(parts, job) == "finished"
    with pytest.raises(InputError, match="exists already"):
        back_up_platform(config, target)


@pytest.mark.parametrize("damage", ["first page", "middle"])
def test_a_damaged_database_is_one_sentence_and_the_newest_backup_is_the_way_back(
    config: Config, tmp_path: Path, damage: str
) -> None:
    job = _one_finished(config, tmp_path)
    back_up_platform(config)
    path = config.data_dir / "penstock.db"
    content = bytearray(path.read_bytes())
    where = slice(0, 4096) if damage == "first page" else slice(4096, len(content) - 8192)
    content[where] = b"\xa5" * (where.stop - where.start)
    path.write_bytes(content)
    with pytest.raises(PenstockError) as caught, started(config):
        pass
    assert "damaged" in str(caught.value)
    assert "--recover" in str(caught.value)
    with started(config, recover=True) as parts:
        assert _state(parts, job) == "finished"
    assert list(config.data_dir.glob("penstock.db.*.aside"))


def test_what_is_no_backup_is_not_restored(config: Config, tmp_path: Path) -> None:
    _one_finished(config, tmp_path)
    target, _ = back_up_platform(config, tmp_path / "copy.db")
    target.write_bytes(target.read_bytes()[: target.stat().st_size // 2])
    with pytest.raises(DamagedError, match="no whole backup"):
        restore_platform(config, target)
    with pytest.raises(InputError, match="there is no file"):
        restore_platform(config, tmp_path / "nothing.db")
    with started(config):
        pass
