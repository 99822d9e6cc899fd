"""Opening a database: SQLite in a file by default, PostgreSQL by URL; the schema is brought up to date on the way."""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, OperationalError

from penstock.core import InputError, require

_MIGRATIONS = Path(__file__).with_name("migrations")
_WRITER_LOCK = 0x70656E73
"""The advisory lock that the one writer of a PostgreSQL database holds ("pens")."""


def open_engine(url: str) -> Engine:
    """An engine for ``sqlite:///file`` or ``postgresql://…``; other databases are refused."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InputError(f"{url!r} is not a database URL", _ALLOWED) from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        engine = create_engine(parsed, connect_args={"timeout": 30.0})
        event.listen(engine, "connect", _prepare_sqlite)
        return engine
    if backend == "postgresql":
        return _open_postgres(parsed.set(drivername="postgresql+psycopg"))
    raise InputError(f"a {backend} database", _ALLOWED)


_ALLOWED = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"


def _open_postgres(url: Any) -> Engine:
    require("psycopg", extra="postgres", why="a PostgreSQL database")
    return create_engine(url, pool_pre_ping=True)


def _prepare_sqlite(connection: Any, _: object) -> None:
    """Readers beside one writer, and a commit that survives a power cut: a promise must not be forgotten."""
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def migrate(engine: Engine) -> None:
    """Bring the schema to the newest version. Safe on an empty and on an up-to-date database."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except CommandError as error:
        raise InputError(
            f"this database was written by a newer version of Penstock ({error})", "one of this version or older",
            "Install that version again, or start with another data directory",
        ) from error  # fmt: skip
    except OperationalError as error:
        where = engine.url.render_as_string(hide_password=True)
        raise InputError(
            f"the database {where} cannot be opened ({error.orig})", "a database this user may write to"
        ) from error


def claim(engine: Engine) -> Connection | None:
    """Become the one writer of a shared database, until the returned connection is closed.

    A SQLite file lies in a data directory, which has a lock of its own.
    """
    if engine.dialect.name != "postgresql":
        return None
    connection = engine.connect()
    held = connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _WRITER_LOCK})
    connection.commit()
    if held:
        return connection
    connection.close()
    raise InputError(
        "another Penstock server uses this database", "one server per database", "Stop the other one, or use its API"
    )
