"""A real PostgreSQL server for tests, from the system's own binaries; it refuses to run as root, so it does not."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.tools import needs
from tests.tools.ports import free_port


def _binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    named = shutil.which("initdb")
    if not found and not named:
        needs.missing_engine("PostgreSQL is not installed")
    return (found[-1] if found else Path(str(named))).parent


def _account() -> pwd.struct_passwd | None:
    """Whom to become if we are root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return needs.skip("PostgreSQL does not run as root", "useradd postgres")


@dataclass(frozen=True)
class PostgresServer:
    """A server that can be stopped and started; its data stay."""

    url: str
    _control: Callable[..., None]

    def stop(self) -> None:
        self._control("-m", "immediate", "-w", "stop")

    def start(self) -> None:
        self._control("-w", "start")

    def restart(self) -> None:
        self.stop()
        self.start()


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty server that lives as long as the context."""
    with postgres_server() as server:
        yield server.url


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """An empty server that lives as long as the context."""
    binaries, account, port = _binaries(), _account(), free_port()
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)

    def run(*command: str) -> None:
        as_user = {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=60, **as_user)  # type: ignore[call-overload]

    def control(*words: str) -> None:
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        run(str(binaries / "pg_ctl"), "-D", f"{folder}/data", "-o", options, "-l", f"{folder}/log", *words)

    try:
        run(str(binaries / "initdb"), "-D", f"{folder}/data", "-A", "trust", "-U", "penstock", "--no-sync")
        server = PostgresServer(f"postgresql://penstock@127.0.0.1:{port}/postgres", control)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
