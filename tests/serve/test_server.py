"""Real processes: a server found or started, one per data directory, killed and replaced under running jobs."""

import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from penstock.client import Client, DataDir, ServerStartError, default_data_dir, ensure_server
from penstock.control import Store
from penstock.core import InputError
from penstock.serve import Config
from penstock.wire import UnavailableError
from tests.control.serving import end_everything_on, until

SCRIPT = """
import os, pathlib, time
marks = pathlib.Path("starts"); marks.mkdir(exist_ok=True)
(marks / f"{os.environ['RANK']}-{os.getpid()}").touch()
for step in range(1, 1001):
    if os.environ["RANK"] == "0":
        print(f"penstock: step={step} total=1000", flush=True)
    if pathlib.Path("finish").exists():
        break
    time.sleep(0.05)
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data directory; whatever was started on it is gone afterwards."""
    path = tmp_path / "data"
    yield path
    end_everything_on(path)


def _pid(data_dir: Path) -> int:
    address = DataDir(data_dir).address()
    assert address is not None
    return address.pid


def _wait_for_end(pid: int) -> None:
    until(lambda: not psutil.pid_exists(pid), "its end")


def _spec(folder: Path) -> dict[str, object]:
    (folder / "train.py").write_text(SCRIPT)
    return {"script": "train.py", "work": "1000 steps", "environment": {"working_dir": str(folder)}, "devices": 2}


def test_a_job_outlives_its_server_and_the_next_one_adopts_it(data_dir: Path, tmp_path: Path) -> None:
    said: list[str] = []
    with ensure_server(data_dir, say=said.append, options=["--slots", "2"]) as client:
        assert "starting a Penstock server" in said[0]
        job_id = client.submit(_spec(tmp_path)).job.id
        until(lambda: (client.job(job_id).progress or None) and client.job(job_id).progress.step, "progress")  # type: ignore[union-attr]
        until(lambda: len(list((tmp_path / "starts").iterdir())) == 2, "the start of both workers")
    with ensure_server(data_dir, say=said.append):
        assert sum("starting a Penstock server" in text for text in said) == 1, "a second server was started"
    first, port = _pid(data_dir), DataDir(data_dir).last_port()
    os.kill(first, signal.SIGKILL)
    _wait_for_end(first)
    with pytest.raises(UnavailableError, match="no server runs"):
        Client.local(data_dir)
    starts = set((tmp_path / "starts").iterdir())
    with ensure_server(data_dir, say=said.append, options=["--slots", "2"]) as client:
        assert _pid(data_dir) != first
        assert DataDir(data_dir).last_port() == port, "open pages would not find it again"
        assert client.job(job_id).state == "running"
        step = until(lambda: client.job(job_id).progress and client.job(job_id).progress.step, "progress")  # type: ignore[union-attr]
        until(lambda: client.job(job_id).progress.step > step, "more progress")  # type: ignore[union-attr,operator]
        assert set((tmp_path / "starts").iterdir()) == starts, "a worker was started again"
        assert [event.kind for event in client.events(job_id).events].count("Launched") == 1
        (tmp_path / "finish").touch()
        until(lambda: client.job(job_id).state == "finished", "the end of the job")
        assert "step=1 total=1000" in client.logs(job_id).text
        second = _pid(data_dir)
        os.kill(second, signal.SIGTERM)
        _wait_for_end(second)
    assert DataDir(data_dir).address() is None
    assert not DataDir(data_dir).is_served()


def test_a_data_directory_has_one_server_and_belongs_to_its_owner(data_dir: Path) -> None:
    with ensure_server(data_dir, options=["--slots", "1"]) as client:
        command = [sys.executable, "-m", "penstock.serve", "--data-dir", str(data_dir), "--slots", "1"]
        second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert second.returncode == 3
        assert f"already served (process {_pid(data_dir)}" in second.stderr
        assert client.ready()
        assert stat.S_IMODE((data_dir / "owner.token").stat().st_mode) == 0o600
        assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
        assert (DataDir(data_dir).owner_token() or "?") not in (data_dir / "server.log").read_text()
        assert client.url.startswith("http://127.0.0.1:")
        os.kill(_pid(data_dir), signal.SIGTERM)
        until(lambda: not DataDir(data_dir).is_served(), "the end of the server")


def test_a_server_that_cannot_start_says_why(data_dir: Path) -> None:
    with pytest.raises(ServerStartError, match="unknown policy 'nonsense'"):
        ensure_server(data_dir, options=["--policy", "nonsense", "--slots", "1"])
    blocked = data_dir / "file"
    blocked.write_text("")
    with pytest.raises(InputError, match="cannot be used"):
        ensure_server(blocked / "below")


def test_listening_to_the_world_must_be_said_aloud() -> None:
    with pytest.raises(InputError, match="lets other machines in"):
        Config(host="0.0.0.0")
    assert Config(host="0.0.0.0", exposed=True).port == 0
    with pytest.raises(InputError, match="port 70000"):
        Config(port=70000)


def test_the_data_directory_follows_the_conventions(tmp_path: Path) -> None:
    assert default_data_dir({"XDG_DATA_HOME": "/x"}) == Path("/x/penstock")
    assert default_data_dir({"XDG_DATA_HOME": "/x", "PENSTOCK_DATA_DIR": "/y"}) == Path("/y")
    assert default_data_dir({}) == Path.home() / ".local" / "share" / "penstock"
    assert Config(data_dir=tmp_path).database_url == f"sqlite:///{tmp_path}/penstock.db"


def test_a_server_on_its_way_out_is_succeeded(data_dir: Path) -> None:
    """It holds the directory when we look and answers nobody; waiting for it to answer would be waiting for ever."""
    data_dir.mkdir()
    with (data_dir / "server.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        going = threading.Timer(0.5, fcntl.flock, (lock, fcntl.LOCK_UN))
        going.start()
        said: list[str] = []
        with ensure_server(data_dir, options=["--slots", "1"], within_s=60.0, say=said.append) as client:
            assert client.ready()
        going.join()
    assert sum("starting a Penstock server" in text for text in said) == 1


def test_the_address_of_a_killed_server_is_not_taken_for_its_successors(data_dir: Path) -> None:
    place = DataDir(data_dir)
    place.prepare()
    ended = subprocess.Popen(["true"])
    ended.wait()
    (data_dir / "server.json").write_text(
        json.dumps({"pid": ended.pid, "host": "127.0.0.1", "port": 9, "started_at": 0.0})
    )
    with place.held():
        assert place.address() is None


def test_a_server_whose_database_another_one_claims_ends_and_says_why(data_dir: Path) -> None:
    command = [sys.executable, "-m", "penstock.serve", "--data-dir", str(data_dir), "--slots", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        until(lambda: DataDir(data_dir).address(), "the server", 60)
        successor = Store(f"sqlite:///{data_dir}/penstock.db", holder=f"{socket.gethostname()} {data_dir}")
        _, said = server.communicate(timeout=60)
        successor.close()
    assert server.returncode == 3
    assert "another Penstock server has claimed the database" in said
    assert "Traceback" not in said
