"""A whole database in one file, made while a server writes to it, and a database made from such a file.

A backup is a SQLite database with all tables as of one moment, whichever kind of database it was made from; so it can
be looked into with any tool, and restored into either kind. Nobody holds the lease of it. Small files that belong to
the database, such as what was learned of speeds, travel in it. Before a backup is believed, it is read: the file as a
whole and the checksum of every entry of its log.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, Integer, NullPool, Table, create_engine, func, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError

from penstock.control.state.store.database import migrate, open_engine
from penstock.control.state.store.faults import DamagedError, told
from penstock.control.state.store.log import line_of
from penstock.control.state.store.tables import events, jobs, metadata
from penstock.core import InputError
from penstock.tools import partial_path, sync_directory

_ROWS = 1_000
_FILES = "carried_files"
_MODE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSummary:
    """What a backup holds. ``damaged`` are the numbers of entries whose checksum does not fit."""

    entries: int
    jobs: int
    last_seq: int
    damaged: Sequence[int] = ()


def back_up(url: str, target: Path, files: Mapping[str, Path]) -> BackupSummary:
    """Write the database as it is now to a new file, together with small SQLite files by name; returns what is in it.

    Nobody who writes to the database waits.
    """
    if target.exists():
        raise InputError(f"{target} exists already", "a file that is not there yet", "Give another name")
    partial = partial_path(target)
    try:
        partial.touch(_MODE)
        with _opened(url) as source:
            _copy_out(source, partial)
        _carry(partial, files)
        summary = examined(partial)
        partial.replace(target)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror}", "a file this user may write") from None
    finally:
        partial.unlink(missing_ok=True)
    sync_directory(target.parent)
    return summary


def examined(path: Path) -> BackupSummary:
    """Read a backup from end to end; raises :class:`DamagedError` where it is not one."""
    if not path.exists():
        raise InputError(f"there is no file {path}", "a file that penstock backup made")
    try:
        with _read_only(path) as connection:
            return _summary(connection)
    except (DamagedError, SQLAlchemyError) as error:
        raise DamagedError(f"{path} is no whole backup ({error})", "a file that penstock backup made") from error


def restore(path: Path, url: str) -> None:
    """Fill an empty database from a backup; one that holds anything is refused."""
    with _opened(url) as target:
        if inspect(target).get_table_names():
            raise InputError(
                f"the database {target.url.render_as_string(hide_password=True)} is not empty",
                "an empty database", "Make one, and give it with --database",
            )  # fmt: skip
        if target.dialect.name == "sqlite":
            _copy_file(path, Path(str(target.url.database)))
        else:
            _copy_in(path, target)


def carried_files(path: Path) -> dict[str, bytes]:
    """The files that a backup was given, by name."""
    with contextlib.closing(_connect(path)) as backup:
        return dict(backup.execute(f"SELECT name, content FROM {_FILES}").fetchall())


@contextlib.contextmanager
def _opened(url: str) -> Iterator[Engine]:
    engine = open_engine(url)
    try:
        with told():
            yield engine
    finally:
        engine.dispose()


@contextlib.contextmanager
def _read_only(path: Path) -> Iterator[Connection]:
    """A file to look into, also on a disk that cannot be written."""
    engine = create_engine("sqlite://", creator=lambda: _connect(path), poolclass=NullPool)
    with told(), engine.connect() as connection:
        yield connection


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)


def _copy_out(source: Engine, target: Path) -> None:
    if not inspect(source).has_table(events.name):
        raise InputError("this database holds no platform", "one that penstock serve has used")
    if source.dialect.name == "sqlite":
        with source.connect() as connection:
            connection.execute(text("VACUUM INTO :path"), {"path": str(target)})
        return
    with _opened(f"sqlite:///{target}") as copy:
        migrate(copy)
        with source.connect() as raw, copy.begin() as into:
            _copy_rows(raw.execution_options(isolation_level="REPEATABLE READ"), into)
    with contextlib.closing(sqlite3.connect(target)) as plain:
        plain.execute("PRAGMA journal_mode = DELETE")


def _copy_in(path: Path, target: Engine) -> None:
    """Into another kind of database: rows, by way of a copy with today's schema."""
    temporary = partial_path(path)
    try:
        _copy_file(path, temporary)
        with _opened(f"sqlite:///{temporary}") as source:
            migrate(source)
            migrate(target)
            with source.connect() as reading, target.begin() as into:
                _copy_rows(reading, into)
                _continue_numbers(into)
    finally:
        for leftover in (temporary, *(temporary.with_name(temporary.name + end) for end in ("-wal", "-shm"))):
            leftover.unlink(missing_ok=True)


def _copy_rows(source: Connection, target: Connection) -> None:
    for table in metadata.sorted_tables:
        for rows in _pages(source, table):
            target.execute(table.insert(), rows)


def _pages(source: Connection, table: Table) -> Iterator[list[dict[str, object]]]:
    found = source.execution_options(yield_per=_ROWS).execute(select(table)).mappings()
    for page in found.partitions(_ROWS):
        yield [dict(row) for row in page]


def _continue_numbers(target: Connection) -> None:
    """Rows that come later are numbered after those that were copied."""
    for table in metadata.sorted_tables:
        for column in table.primary_key:
            if column.autoincrement is True and isinstance(column.type, Integer):
                last = target.scalar(select(func.max(column)))
                place = text("SELECT setval(pg_get_serial_sequence(:table, :column), :last)")
                if last is not None:
                    target.execute(place, {"table": table.name, "column": column.name, "last": last})


def _copy_file(source: Path, target: Path) -> None:
    """A backup as a database to work with: without what it only carried, and held by nobody."""
    target.unlink(missing_ok=True)
    target.touch(_MODE)
    address = f"file:{quote(str(source.absolute()))}?mode=ro"
    with (
        contextlib.closing(sqlite3.connect(address, uri=True)) as old,
        contextlib.closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)
        new.execute(f"DROP TABLE IF EXISTS {_FILES}")
        new.commit()


def _carry(path: Path, files: Mapping[str, Path]) -> None:
    with contextlib.closing(sqlite3.connect(path)) as backup:
        backup.execute("PRAGMA secure_delete = OFF")
        backup.execute(f"CREATE TABLE {_FILES} (name TEXT PRIMARY KEY, content BLOB NOT NULL)")
        for name, file in files.items():
            if file.exists():
                backup.execute(f"INSERT INTO {_FILES} VALUES (?, ?)", (name, _bytes_of(file)))
        if backup.execute("SELECT 1 FROM sqlite_master WHERE name = 'leases'").fetchone():
            backup.execute("UPDATE leases SET holder = ''")
        backup.commit()


def _bytes_of(file: Path) -> bytes:
    """A SQLite file as it is now, whoever writes to it."""
    with contextlib.closing(_connect(file)) as source, contextlib.closing(sqlite3.connect(":memory:")) as copy:
        source.backup(copy)
        return copy.serialize()


def _summary(connection: Connection) -> BackupSummary:
    state = connection.execute(text("PRAGMA integrity_check")).scalar_one()
    if state != "ok":
        raise DamagedError(f"the file is damaged ({state})")
    row = connection.execute(select(func.count(), func.max(events.c.seq)).select_from(events)).one()
    return BackupSummary(
        entries=row[0], last_seq=row[1] or 0, damaged=tuple(_damaged_entries(connection)),
        jobs=connection.scalar(select(func.count()).select_from(jobs)) or 0,
    )  # fmt: skip


def _damaged_entries(connection: Connection) -> Iterator[int]:
    """Entries of versions that knew no checksums cannot be judged."""
    if events.c.checksum.name in {column["name"] for column in inspect(connection).get_columns(events.name)}:
        found = connection.execution_options(yield_per=_ROWS).execute(select(events)).mappings()
        yield from (line.seq for line in map(line_of, found) if not line.intact)
