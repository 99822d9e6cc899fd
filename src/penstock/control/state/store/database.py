"""Opening a database: SQLite in a file by default, PostgreSQL by URL; the schema is brought up to date on the way."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, column, create_engine, event, inspect, select, table
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, OperationalError

from penstock.control.state.store.faults import DamagedError, told
from penstock.control.state.store.lease import Lease
from penstock.control.state.store.tables import leases
from penstock.core import InputError, require
from penstock.tools import create_private
from penstock.wire import UnavailableError

_MIGRATIONS = Path(__file__).with_name("migrations")
_BUSY_S = 3.0
"""A database that another process has locked is waited for so long; then whoever asked is told."""
_CONNECT_S = 4
_AT_ONCE = 500
READ_AT_ONCE = 1000
"""Rows of a long answer that are fetched together; the whole of it would be in memory twice."""


def open_engine(url: str) -> Engine:
    """An engine for ``sqlite:///file`` or ``postgresql://…``; other databases are refused."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InputError(f"{url!r} is not a database URL", _ALLOWED) from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if parsed.database:
            create_private(Path(parsed.database))  # its log and its shared memory get the same mode from SQLite
        engine = create_engine(parsed, connect_args={"timeout": _BUSY_S})
        event.listen(engine, "connect", _prepare_sqlite)
        return engine
    if backend == "postgresql":
        return _open_postgres(parsed.set(drivername="postgresql+psycopg"))
    raise InputError(f"a {backend} database", _ALLOWED)


_ALLOWED = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"


def _open_postgres(url: Any) -> Engine:
    require("psycopg", extra="postgres", why="a PostgreSQL database")
    return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": _CONNECT_S})


def _prepare_sqlite(connection: Any, _: object) -> None:
    """Readers beside one writer, and a commit that survives a power cut: a promise must not be forgotten."""
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def batches(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """Values a few hundred at a time: as many as one statement takes on every database."""
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]


class Database:
    """One database as its one writer uses it: every change is fenced by the lease, every fault told in our words."""

    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._engine = engine
        self._lease = lease

    def check(self) -> None:
        """A server that lost the lease reads nothing either: what it would tell is somebody else's now."""
        self._lease.check()

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """To read."""
        self.check()
        with told(self._engine), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """To write: all of it or nothing, and nothing if somebody else has claimed the database."""
        with told(self._engine), self._lease.turn(), self._engine.begin() as connection:
            self._lease.fence(connection)
            yield connection


def prepare(engine: Engine, lease: Lease) -> None:
    """Claim a database and bring its schema up to date; one that has no lease yet gets it with the schema."""
    with _opening(engine):
        has_lease = inspect(engine).has_table(leases.name)
    if has_lease:
        lease.claim()
        migrate(engine, lease)
    else:
        migrate(engine)
        lease.claim()


@contextmanager
def reading(url: str) -> Iterator[Database]:
    """A database to read from beside the server that writes to it, with a schema that is up to date already."""
    engine = open_engine(url)
    try:
        if not _is_current(engine):
            raise InputError(
                "this database is of another version of Penstock", "one that a server of this version has opened",
                "Start its server once",
            )  # fmt: skip
        yield Database(engine, Lease(engine))
    finally:
        engine.dispose()


def migrate(engine: Engine, lease: Lease | None = None) -> None:
    """Bring the schema to the newest version, or leave it as it was: whoever is killed over it begins again.

    Safe on an empty and on an up-to-date database, which costs nothing: the tool that migrates is loaded for a schema
    of another version only. SQLite begins no transaction by itself when a table is made.
    """
    if _is_current(engine):
        return
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    try:
        with _opening(engine), engine.begin() as connection:
            if engine.dialect.name == "sqlite":
                for pragma in _ROOM_TO_SORT:
                    connection.exec_driver_sql(f"PRAGMA {pragma}")
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            if lease is not None:
                lease.fence(connection)
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        engine.dispose()
    except CommandError as error:
        raise InputError(
            f"this database was written by a newer version of Penstock ({error})", "one of this version or older",
            "Install that version again, or start with another data directory",
        ) from error  # fmt: skip


_ROOM_TO_SORT = ("cache_size=-65536", "threads=4")
"""Indices over millions of rows are sorted in large pieces, by several threads."""


def newest_schema() -> str:
    """The version that :func:`migrate` brings a database to: that of the last migration, as its file is called."""
    return max(path.name[1:5] for path in _MIGRATIONS.glob("versions/v*.py"))


def _is_current(engine: Engine) -> bool:
    with _opening(engine), engine.connect() as connection:
        if not inspect(connection).has_table(_VERSION.name):
            return False
        return connection.scalars(select(_VERSION.c.version_num)).all() == [newest_schema()]


_VERSION = table("alembic_version", column("version_num"))


@contextmanager
def _opening(engine: Engine) -> Iterator[None]:
    where = engine.url.render_as_string(hide_password=True)
    try:
        with told(engine):
            yield
    except DamagedError:
        raise
    except (UnavailableError, OperationalError) as error:
        what = error.given if isinstance(error, UnavailableError) else str(error.orig)
        raise InputError(
            f"the database {where} cannot be opened ({what})", "a database this user may write to"
        ) from error
