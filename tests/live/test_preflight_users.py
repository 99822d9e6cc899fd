"""Checks of a node by a server that an ordinary user runs: they run where the job would, not in directories of root."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client
from tests.control.serving import end_everything_on, until
from tests.live.site import OVER
from tests.serve.other_users import USERS, home_of, needs_other_users, open_folder, reachable_packages, run_as

pytestmark = needs_other_users
USER = USERS[0]
NO_TORCH = "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n: None if n == 'torch' else f(n)"
"""A check without PyTorch takes a moment."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with open_folder() as path:
        path.joinpath("sitecustomize.py").write_text(NO_TORCH)
        yield path
        end_everything_on(path / USER / "data")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    """Of a server that the user runs, with a Python on its path that lacks Penstock, like that of most jobs."""
    foreign = folder / "foreign"
    foreign.mkdir()
    foreign.chmod(0o755)
    (foreign / "python3").write_text('#!/bin/sh\nexec /usr/bin/python3 -I "$@"\n')
    (foreign / "python3").chmod(0o755)
    started = _run(folder, "nodes", "--json", PATH=f"{foreign}:/usr/bin:/bin")
    assert started.returncode == 0, started.stderr
    with Client.local(home_of(USER, folder) / "data") as found:
        yield found


def _run(folder: Path, *words: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    return run_as(USER, folder, *words, **{"PYTHONPATH": f"{folder}:{reachable_packages(folder)}", **more})


def _outcome(client: Client, working_dir: Path, **env: str) -> tuple[str, str]:
    job = client.submit({
        "command": ["sh", "-c", "echo trained"], "work": "1 step", "retries": 0, "profile": "never", "devices": 1,
        "preflight": {"level": "quick", "again_after": "0s"},
        "environment": {"working_dir": str(working_dir), "env": env},
    }).job.id  # fmt: skip
    until(lambda: client.job(job).state in OVER, f"the end of {job}", 120.0)
    text = "".join(piece.text for piece in client.follow_logs(job, until_now=True))
    return client.job(job).state, text


def test_a_job_whose_python_lacks_penstock_is_checked_where_it_would_run(client: Client, folder: Path) -> None:
    state, text = _outcome(client, home_of(USER, folder))
    assert "Penstock's own did" in text, "the job's Python could not check"
    assert (state, "Permission denied" in text) == ("finished", False), text


def test_a_directory_that_the_job_only_reads_is_no_fault_of_the_node(client: Client) -> None:
    state, text = _outcome(client, Path("/"), PATH="/usr/bin:/bin")
    assert (state, "Penstock's own did" in text) == ("finished", False), text
    assert "fit for work" in text


def test_the_platform_checks_its_node_for_an_ordinary_user(client: Client, folder: Path) -> None:
    (node,) = client.nodes()
    done = _run(folder, "preflight", "--quick", "--platform", "--nodes", node.name, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)[0]["fit"] is True


def test_a_node_is_not_judged_by_a_folder_that_this_user_may_not_write_to(folder: Path) -> None:
    done = _run(folder, "preflight", "--quick", "--json", cwd=Path("/"))
    assert done.returncode == 0, done.stdout + done.stderr
    disk = next(check for check in json.loads(done.stdout)["checks"] if check["name"] == "disk")
    assert (disk["status"], disk["figure"]) == ("warn", "not measured: this user may not write to /")
    assert "--folder" in disk["next"]
