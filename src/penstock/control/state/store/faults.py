"""What a database says when it cannot do its work, in the platform's words: busy, full, unreachable, damaged.

Whoever asked is told within seconds that it is the storage and not the request, and whether to try again. Violations of
constraints are no faults of a database and stay as they are.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from penstock.core import PenstockError, StorageFullError
from penstock.tools import is_disk_full
from penstock.wire import UnavailableError

_FULL = "what was asked for needs more space than there is"
_SQLITE_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_SQLITE_FILE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM)
_SQLITE_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_POSTGRES_DAMAGED = ("XX001", "XX002")
_POSTGRES_FULL = ("53100", "53000")
_POSTGRES_LATER = ("08", "53", "55", "57", "58", "25", "40")
"""Classes of states: connection, resources, locks, operator, system, read-only, conflicts of transactions."""


class DamagedError(UnavailableError):
    """A database whose content is not what was written."""

    exit_code: ClassVar[int] = 1


@contextmanager
def told(engine: Engine | None = None) -> Iterator[None]:
    """Faults of the database inside are raised as errors of ours. ``engine`` says on which disk an SQLite file lies."""
    try:
        yield
    except PoolTimeoutError as error:
        raise _later("every connection to the database is in use") from error
    except DBAPIError as error:
        if (fault := fault_of(error, engine)) is not None:
            raise fault from error
        raise


def fault_of(error: DBAPIError, engine: Engine | None = None) -> PenstockError | None:
    """What a driver's error means; nothing if it is not about the database itself."""
    if isinstance(error, IntegrityError):
        return None
    if isinstance(error.orig, sqlite3.Error):
        return _of_sqlite(error.orig, engine)
    return _of_postgres(error)


def _of_sqlite(error: sqlite3.Error, engine: Engine | None) -> PenstockError | None:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _SQLITE_BUSY:
        return _later("the database is locked by another process")
    if code == sqlite3.SQLITE_FULL or (code in _SQLITE_FILE and engine is not None and _is_full(engine)):
        return StorageFullError("the disk of the database is full", _FULL, "Make room and try again")
    if code in _SQLITE_FILE:
        return _later(f"the database cannot be used ({error})")
    if code in _SQLITE_DAMAGED:
        return _damaged(str(error))
    return None


def _is_full(engine: Engine) -> bool:
    """SQLite calls a full disk an I/O error where it fails on the file beside the database."""
    return is_disk_full(Path(engine.url.database or ".").parent)


def _of_postgres(error: DBAPIError) -> PenstockError | None:
    state = str(getattr(error.orig, "sqlstate", None) or "")
    first = str(error.orig).strip().partition("\n")[0]
    if state in _POSTGRES_FULL:
        return StorageFullError("the disk of the database is full", _FULL, "Make room and try again")
    if state in _POSTGRES_DAMAGED:
        return _damaged(first)
    if error.connection_invalidated or not state or state.startswith(_POSTGRES_LATER):
        return _later(f"the database does not answer ({first})") if _is_operational(error) else None
    return None


def _is_operational(error: DBAPIError) -> bool:
    """Whether the driver blames the database, its connection or its resources, and not the statement."""
    names = {kind.__name__ for kind in type(error.orig).__mro__}
    return bool(names & {"OperationalError", "InternalError", "InterfaceError"})


def _later(what: str) -> UnavailableError:
    return UnavailableError(what, "a database that answers", "Try again in a moment")


def _damaged(what: str) -> DamagedError:
    return DamagedError(
        f"the database is damaged ({what})", "a database that reads as it was written",
        "Restore a backup (penstock restore FILE), or start with penstock serve --recover, which takes the newest "
        "backup of the data directory and what the runs tell",
    )  # fmt: skip
