"""What a job needs is made ready outside of everybody's requests, within a time limit, and never left behind."""

import os
import pwd
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from penstock.client import Client, DataDir, ensure_server
from tests.control.serving import end_everything_on, until
from tests.serve.other_users import USERS, needs_other_users, open_folder, server_of, use_reachable_python

SLOW = """
import os, pathlib, subprocess, sys, time
marks = pathlib.Path({marks!r})
(marks / f"{{os.getpid()}}.build").write_text(f"{{os.getuid()}}\\n" + "\\n".join(os.environ))
left = subprocess.Popen(["sleep", "600"], start_new_session=True)
(marks / f"{{left.pid}}.left").touch()
time.sleep(600)
"""
QUICK_S = 5.0
"""Far above what an answer takes and far below what the package does, on any machine."""


def slow_package(folder: Path, name: str = "slow") -> tuple[Path, Path]:
    """A package whose installation writes down who runs it, starts something in the background and hangs."""
    package, marks = folder / name, folder / f"{name}-marks"
    package.mkdir()
    marks.mkdir(mode=0o777)
    marks.chmod(0o777)
    build = '[build-system]\nrequires = []\nbuild-backend = "slow"\nbackend-path = ["."]\n'
    (package / "pyproject.toml").write_text(f'{build}[project]\nname = "slow"\nversion = "1.0"\n')
    (package / "slow.py").write_text(SLOW.format(marks=str(marks)))
    return package, marks


def spec_with(package: Path) -> dict[str, object]:
    return {
        "command": "true", "work": "1 step", "deadline": "6h",
        "environment": {"working_dir": "/", "requirements": [str(package)]},
    }  # fmt: skip


def alive(marks: Path) -> list[int]:
    """Processes of the installation that live, and what they left."""
    numbers = [int(path.stem) for path in marks.iterdir()]
    return [one for one in numbers if psutil.pid_exists(one) and psutil.Process(one).status() != "zombie"]


def slowest(client: Client, job: str) -> float:
    """The longest that any of several kinds of requests takes now."""
    took = []
    for ask in (client.version, client.jobs, lambda: client.job(job), client.overview):
        began = time.monotonic()
        ask()
        took.append(time.monotonic() - began)
    return max(took)


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a pip that is killed leaves its folders there
    path = tmp_path / "data"
    yield path
    end_everything_on(path)


def test_forty_five_quotes_and_slow_packages_keep_nobody_waiting_and_leave_nothing(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the server's")
    package, marks = slow_package(tmp_path)
    with ensure_server(data_dir, options=["--slots", "1"]) as client:
        for _ in range(45):
            began = time.monotonic()
            client.quote(spec_with(package))
            assert time.monotonic() - began < QUICK_S
        assert list(marks.iterdir()) == [], "a quote runs nothing"
        jobs = [client.submit(spec_with(package)).job.id for _ in range(5)]
        until(lambda: list(marks.glob("*.left")), "an installation", 60.0)
        assert max(slowest(client, jobs[0]) for _ in range(5)) < QUICK_S
        assert len(list(marks.glob("*.build"))) <= 2, "more than may be prepared at once"
        around = next(marks.glob("*.build")).read_text().splitlines()
        assert "PATH" in around
        assert "AWS_SECRET_ACCESS_KEY" not in around
    address = DataDir(data_dir).address()
    assert address is not None
    os.kill(address.pid, signal.SIGKILL)
    until(lambda: not alive(marks), "the end of the installation with its server")


def test_an_installation_that_takes_too_long_fails_its_job_and_is_ended(data_dir: Path, tmp_path: Path) -> None:
    package, marks = slow_package(tmp_path)
    data_dir.mkdir(mode=0o700)
    (data_dir / "penstock.toml").write_text('prepare_limit = "5s"\n')
    with ensure_server(data_dir, options=["--slots", "1"]) as client:
        job = client.submit(spec_with(package)).job.id
        until(lambda: client.job(job).state == "failed", "the end of its patience", 60.0)
        assert "not ready within 5 s" in client.job(job).reason
    until(lambda: not alive(marks), "the end of the installation")


@needs_other_users
def test_packages_are_installed_as_the_jobs_user(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_folder() as folder:
        use_reachable_python(monkeypatch, folder)
        monkeypatch.setenv("TMPDIR", str(folder / "temporary"))
        (folder / "temporary").mkdir()
        (folder / "temporary").chmod(0o1777)
        package, marks = slow_package(folder)
        for path in (package, *package.iterdir()):
            path.chmod(0o755)
        with server_of(folder) as admin:
            job = admin.submit(spec_with(package) | {"tenant": "red"}).job.id
            until(lambda: list(marks.glob("*.left")) or admin.job(job).state == "failed", "the installation", 60.0)
            assert admin.job(job).state == "preparing", admin.job(job).reason
            uid = next(marks.glob("*.build")).read_text().splitlines()[0]
            assert uid == str(pwd.getpwnam(USERS[0]).pw_uid)
