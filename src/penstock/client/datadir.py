"""The server's place on the disk, where clients find it: who runs, on which port, and the owner's token."""

import fcntl
import json
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TextIO

from penstock.core import InputError, PenstockError
from penstock.tools import write_atomically

_log = logging.getLogger(__name__)


def default_data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """$PENSTOCK_DATA_DIR, else penstock under $XDG_DATA_HOME, else under ~/.local/share."""
    env = os.environ if environ is None else environ
    if given := env.get("PENSTOCK_DATA_DIR"):
        if not Path(given).is_absolute():
            raise InputError(
                f"PENSTOCK_DATA_DIR={given}, which is another directory wherever it is read", "an absolute path",
                f"Try {Path(given).absolute()}",
            )  # fmt: skip
        return Path(given)
    home = env.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "penstock"


class AlreadyServedError(PenstockError):
    """Another server holds this data directory."""

    exit_code = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server listens. ``certificate`` is the file with the one it shows, if it speaks TLS."""

    pid: int
    host: str
    port: int
    started_at: float
    certificate: str = ""

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"


class DataDir:
    """Files of one server. ``server.lock`` is held while it lives, which no crash can forget to undo."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()

    def prepare(self) -> None:
        """Make the directory, for nobody else: tokens and the database lie in it, whatever its mode was before."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self.path.stat().st_mode & 0o077:
                self.path.chmod(0o700)
                _log.warning("%s was open to other users; it is not any more", self.path)
            self._close_files()
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be used: {error.strerror}", "a directory of this user's own",
                "Give another data directory",
            ) from None  # fmt: skip

    def _close_files(self) -> None:
        """Take away what other users might do with files and secrets inside, should the directory ever be opened."""
        for path in chain(self.path.glob("*.*"), self.path.glob("secrets"), self.path.glob("secrets/**/*")):
            mode = path.lstat().st_mode
            if stat.S_IMODE(mode) & 0o077 and (stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and "secrets" in path.parts)):
                with suppress(OSError):  # a file of another user, or of a file system that is read-only
                    path.chmod(stat.S_IMODE(mode) & 0o700)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the one server of this directory."""
        self.prepare()
        with self._lock_file() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                address = self.address()
                where = f" (process {address.pid}, {address.url})" if address else ""
                raise AlreadyServedError(
                    f"{self.path} is already served{where}; stop that server first: penstock stop"
                ) from None
            self._address_file.unlink(missing_ok=True)  # of one that was killed: its port may be somebody else's by now
            try:
                yield
            finally:
                self._address_file.unlink(missing_ok=True)

    def _lock_file(self) -> TextIO:
        try:
            return (self.path / "server.lock").open("a")
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written: {error.strerror}", "a directory this user may write to",
                "Give another data directory, or look after the disk",
            ) from None  # fmt: skip

    def is_served(self) -> bool:
        """Whether a server lives here: its lock says so, not a process id that may be somebody else's by now."""
        try:
            with (self.path / "server.lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def publish(self, address: Address) -> None:
        self._write(self._address_file, json.dumps(asdict(address)))
        self._write(self._port_file, str(address.port))

    def last_port(self) -> int:
        """Where the server before listened; 0 if there was none."""
        try:
            return int(self._port_file.read_text())
        except (OSError, ValueError):
            return 0

    def address(self) -> Address | None:
        try:
            return Address(**json.loads(self._address_file.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def last_entry(self) -> int:
        """How far the log had come when it was last noted; 0 if it never was."""
        try:
            return int(self._history_file.read_text())
        except (OSError, ValueError):
            return 0

    def note_last_entry(self, seq: int) -> None:
        """Remember how far the log has come, beside the database and not in it."""
        self._write(self._history_file, str(seq))

    def slots(self) -> int:
        """The slots that it was served with the last time; 0 for what the machine has."""
        try:
            return max(int(self._slots_file.read_text()), 0)
        except (OSError, ValueError):
            return 0

    def note_slots(self, slots: int) -> None:
        """Remember the slots for a server that starts by itself: its jobs go on on them."""
        if slots != self.slots():
            self._write(self._slots_file, str(slots))

    def owner_token(self) -> str | None:
        try:
            return self._token_file.read_text().strip() or None
        except OSError:
            return None

    def keep_owner_token(self, secret: str) -> None:
        self._write(self._token_file, secret)

    @property
    def _address_file(self) -> Path:
        return self.path / "server.json"

    @property
    def _port_file(self) -> Path:
        return self.path / "server.port"

    @property
    def _slots_file(self) -> Path:
        return self.path / "server.slots"

    @property
    def _history_file(self) -> Path:
        return self.path / "history.seq"

    @property
    def _token_file(self) -> Path:
        return self.path / "owner.token"

    @property
    def log_file(self) -> Path:
        return self.path / "server.log"

    def _write(self, path: Path, text: str) -> None:
        """Whole or not at all, and for nobody else's eyes."""
        write_atomically(path, text, durable=True, mode=0o600)
