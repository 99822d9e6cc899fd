"""One small SQLite file that any number of processes and threads share.

What is kept is little and written seldom: every operation opens, uses and closes its own connection, so whoever holds a
store may be a thread, or inherited over a fork.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from penstock.core import InputError, StorageError, StorageFullError
from penstock.tools import create_private, is_disk_full

VERSION = 1
_WAIT_S = 30.0


class SharedDatabase:
    """The file at ``path`` with the tables of ``schema`` in it; what a newer version wrote is refused."""

    def __init__(self, path: Path, schema: str) -> None:
        self.path = path
        self._prepare(schema)

    def _prepare(self, schema: str) -> None:
        """Create what is missing. Several processes may be at it: the switch to WAL does not wait, so we do."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise InputError(f"{self.path.parent} cannot be created: {problem.strerror}", "a writable place") from None
        create_private(self.path)
        _patiently(self._switch_to_wal)
        with self.writing() as database:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise InputError(
                    f"{self.path} was written by a newer Penstock (format {version})",
                    f"formats up to {VERSION}",
                    "Upgrade, or give another file",
                )
            database.execute(schema)
            database.execute(f"PRAGMA user_version = {VERSION}")

    def _switch_to_wal(self) -> None:
        with self.reading() as database:
            database.execute("PRAGMA journal_mode = WAL")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None)) as database:
                database.execute("PRAGMA synchronous = NORMAL")
                yield database
        except sqlite3.DatabaseError as problem:
            if _is_busy(problem):
                raise
            raise self._fault(problem) from problem

    def _fault(self, problem: sqlite3.DatabaseError) -> InputError:
        """Return what an error of SQLite means: only a file that is no database, or damaged, may be moved away."""
        if _code(problem) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return InputError(
                f"{self.path} cannot be used: {problem}", "a database of measured curves", "Move the file away"
            )
        if _code(problem) == sqlite3.SQLITE_FULL or is_disk_full(self.path.parent):
            return StorageFullError(f"the disk of {self.path} is full", "what fits on it", "Make room and try again")
        return StorageError(
            f"{self.path} cannot be used: {problem}", "a disk that can be read and written",
            "Check the disk and the rights of the directory, then try again",
        )  # fmt: skip

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing."""
        with self.reading() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")


def _patiently(attempt: Callable[[], None]) -> None:
    end = time.monotonic() + _WAIT_S
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as problem:
            if not _is_busy(problem) or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _is_busy(problem: sqlite3.Error) -> bool:
    return _code(problem) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _code(problem: sqlite3.Error) -> int:
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF
