"""A server as root whose jobs run as other users, in directories that those users can come to."""

import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.client import Client, DataDir, ensure_server
from tests.control.serving import end_everything_on

PYTHON = "/usr/bin/python3"
"""A Python that every user may start; the one that runs the tests may lie in somebody's home."""
USERS = ("games", "daemon")


def _why_not() -> str:
    if os.geteuid() != 0:
        return "jobs run as other users only where the server runs as root"
    known = {entry.pw_name for entry in pwd.getpwall()}
    if missing := [name for name in USERS if name not in known]:
        return f"this machine has no user {', '.join(missing)}"
    return "" if Path(PYTHON).exists() else f"this machine has no {PYTHON}"


needs_other_users = pytest.mark.skipif(bool(_why_not()), reason=_why_not())


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter; pytest's own are closed to other users."""
    path = Path(tempfile.mkdtemp(prefix="penstock-users-"))
    path.chmod(0o711)
    try:
        yield path
    finally:
        end_everything_on(path / "data-jobs")
        end_everything_on(path / "data")
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def server_of(folder: Path, *lines: str) -> Iterator[Client]:
    """An admin's client of a server with two tenants, red and blue, whose jobs are other users' processes."""
    data = folder / "data"
    data.mkdir(mode=0o700, exist_ok=True)
    table = "".join(f'{tenant} = "{user}"\n' for tenant, user in zip(("red", "blue"), USERS, strict=True))
    (data / "penstock.toml").write_text("\n".join([*lines, "[run_as]", table]))
    with ensure_server(data, say=lambda _: None, options=["--slots", "2"]) as client:
        yield client


def user_client(admin: Client, folder: Path, tenant: str) -> Client:
    """A client with a token of one tenant's user."""
    address = DataDir(folder / "data").address()
    assert address is not None
    made = admin.make_token(name=tenant, tenant=tenant)
    assert made.secret is not None
    return Client(address.url, made.secret)


def use_reachable_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start servers with a Python that other users can start as well, and with the packages of the one at hand."""
    version = subprocess.check_output([PYTHON, "-c", "import sys; print(tuple(sys.version_info[:2]))"], text=True)
    if version.strip() != str(tuple(sys.version_info[:2])):
        pytest.skip(f"{PYTHON} cannot use the packages of {sys.executable}")
    source = Path(__file__).parents[2] / "src"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(source), sysconfig.get_paths()["purelib"]]))
    monkeypatch.setattr(sys, "executable", PYTHON)
