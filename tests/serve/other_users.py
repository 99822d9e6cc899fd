"""Servers with other users: as root whose jobs run as them, or run by one of them, in directories they can enter."""

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
from penstock.tools import UnixUser, acting_as, process_options
from tests.control.serving import end_everything_on
from tests.tools import needs

PYTHON = "/usr/bin/python3"
"""A Python that every user may start; the one that runs the tests may lie in somebody's home."""
USERS = ("games", "daemon")


def _why_not() -> str:
    if os.geteuid() != 0:
        return needs.reason("jobs run as other users only where the server runs as root", needs.ROOT)
    known = {entry.pw_name for entry in pwd.getpwall()}
    if missing := [name for name in USERS if name not in known]:
        return needs.reason("a user is missing", f"useradd {missing[0]}")
    return "" if Path(PYTHON).exists() else needs.reason(f"there is no {PYTHON}", "apt-get install python3")


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


def use_reachable_python(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Start servers with a Python that other users can start as well, and with the packages of the one at hand."""
    monkeypatch.setenv("PYTHONPATH", reachable_packages(folder))
    monkeypatch.setattr(sys, "executable", PYTHON)


def reachable_packages(folder: Path) -> str:
    """Return a PYTHONPATH of this package and all that is installed, copied to ``folder`` if users cannot read it."""
    version = subprocess.check_output([PYTHON, "-c", "import sys; print(tuple(sys.version_info[:2]))"], text=True)
    if version.strip() != str(tuple(sys.version_info[:2])):
        needs.skip(f"{PYTHON} cannot use the packages of another version", f"make test PYTHON={PYTHON}")
    places = [Path(__file__).parents[2] / "src", Path(sysconfig.get_paths()["purelib"])]
    return os.pathsep.join(str(_reachable(place, folder / f"packages-{place.name}")) for place in places)


def _reachable(place: Path, copy: Path) -> Path:
    try:
        for name in USERS:
            with acting_as(UnixUser.named(name)):
                os.listdir(place)
    except PermissionError:
        if not copy.exists():
            shutil.copytree(place, copy, copy_function=_linked)
        return copy
    return place


def _linked(source: str, target: str) -> None:
    """A file for every user: a link where its mode and the file system allow that, else a copy."""
    try:
        if not os.stat(source).st_mode & 0o004:
            raise PermissionError(source)
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
        os.chmod(target, 0o755)


def run_as(
    name: str, folder: Path, *words: str, cwd: Path | None = None, **env: str
) -> "subprocess.CompletedProcess[str]":
    """Run ``penstock`` as an ordinary user whose home and data directory lie in ``folder``."""
    home = home_of(name, folder)
    variables = {
        "HOME": str(home), "PATH": os.environ["PATH"], "PENSTOCK_DATA_DIR": str(home / "data"), "COLUMNS": "200",
        "PYTHONPATH": reachable_packages(folder), "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_DISABLE_JIT": "1",  # nothing is compiled for a server of two decisions
        **env,
    }  # fmt: skip
    return subprocess.run(
        [PYTHON, "-m", "penstock.cli", *words], env=variables, cwd=cwd or home, capture_output=True, text=True,
        check=False, timeout=300, **process_options(UnixUser.named(name)),
    )  # fmt: skip


def home_of(name: str, folder: Path) -> Path:
    """A directory of that user's own."""
    home = folder / name
    if not home.exists():
        home.mkdir(mode=0o700)
        os.chown(home, UnixUser.named(name).uid, UnixUser.named(name).gid)
    return home
