"""The append-only log, and what is written in one transaction with an entry."""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, insert, select, update

from penstock.control.state.store.database import Database, batches
from penstock.control.state.store.tables import events, idempotency, runs

_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One entry of the log as it is stored; ``seq`` is 0 until then.

    ``checksum`` is over everything else but ``seq``; entries of earlier versions have none until they are given one.
    """

    at: float
    kind: str
    payload: Mapping[str, Any]
    job_id: str | None = None
    tenant: str | None = None
    seq: int = 0
    checksum: str | None = field(default=None, compare=False)

    @property
    def intact(self) -> bool:
        """Whether it still reads as it was written, as far as anybody can tell."""
        return self.checksum is None or self.checksum == checksum_of(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A client's word that two requests are the same one."""

    tenant: str
    key: str
    fingerprint: str
    job_id: str = ""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The reports of a run have been read up to here."""

    run_id: str
    job_id: str
    reports_read: int


class Log:
    """Entries in the order they happened."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, *lines: Line, keys: Iterable[Key] = (), cursors: Iterable[Cursor] = ()) -> int:
        """Write entries and what belongs to them, all or nothing; returns the number of the last one."""
        with self._database.begin() as connection:
            if new_keys := [{"at": lines[0].at, **_columns(key)} for key in keys]:
                connection.execute(_NEW_KEY, new_keys)
            _advance(connection, cursors)
            rows = [_columns(line) | {"checksum": checksum_of(line)} for line in lines]
            for row in rows:
                del row["seq"]
            if len(rows) > 1:
                connection.execute(_NEW_ENTRY, rows[:-1])
            if not rows:
                return 0
            last: int = connection.execute(_LAST_ENTRY, rows[-1]).scalar_one()
        return last

    def add_checksums(self, lines: Sequence[Line]) -> None:
        """For entries of versions that wrote none."""
        if not lines:
            return
        row = update(events).where(events.c.seq == bindparam("number")).values(checksum=bindparam("digest"))
        with self._database.begin() as connection:
            connection.execute(row, [{"number": line.seq, "digest": checksum_of(line)} for line in lines])

    def read(self, after: int = 0) -> Iterator[Line]:
        """Every entry after a number, page by page."""
        while page := self.page(after=after, limit=_PAGE):
            yield from page
            after = page[-1].seq

    def page(
        self,
        *,
        after: int = 0,
        limit: int = _PAGE,
        job_id: str | None = None,
        tenant: str | None = None,
        before: int | None = None,
        newest: bool = False,
        without: Collection[str] = (),
    ) -> list[Line]:
        """Return entries by ascending number: the first ``limit`` that match, or the last with ``newest``."""
        order = events.c.seq.desc() if newest else events.c.seq
        query = select(events).where(events.c.seq > after).order_by(order).limit(limit)
        if before is not None:
            query = query.where(events.c.seq < before)
        if without:
            query = query.where(events.c.kind.not_in(without))
        if job_id is not None:
            query = query.where(events.c.job_id == job_id)
        if tenant is not None:
            query = query.where(events.c.tenant == tenant)
        with self._database.connect() as connection:
            lines = [line_of(row) for row in connection.execute(query).mappings()]
        return lines[::-1] if newest else lines

    def of_kind(self, kind: str, *, after: int = 0) -> list[Line]:
        """Every entry of a kind after a number; for kinds that are rare."""
        query = select(events).where(events.c.seq > after, events.c.kind == kind).order_by(events.c.seq)
        with self._database.connect() as connection:
            return [line_of(row) for row in connection.execute(query).mappings()]

    def last(self) -> Line | None:
        """The newest entry."""
        with self._database.connect() as connection:
            row = connection.execute(select(events).order_by(events.c.seq.desc()).limit(1)).mappings().first()
        return None if row is None else line_of(row)

    def cursors(self) -> dict[str, int]:
        """How far the reports of each run have been read."""
        with self._database.connect() as connection:
            return {row.run_id: row.reports_read for row in connection.execute(select(runs))}

    def find_key(self, tenant: str, key: str) -> Key | None:
        query = select(idempotency).where(idempotency.c.tenant == tenant, idempotency.c.key == key)
        with self._database.connect() as connection:
            row = connection.execute(query).first()
        return (
            None if row is None else Key(tenant=row.tenant, key=row.key, fingerprint=row.fingerprint, job_id=row.job_id)
        )


def checksum_of(line: Line) -> str:
    """Over the entry as it will be read: JSON knows no other keys than strings."""
    content = [line.at, line.kind, line.job_id, line.tenant, json.loads(json.dumps(line.payload))]
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=8).hexdigest()


def _columns(value: Line | Key | Cursor) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def _advance(connection: Connection, cursors: Iterable[Cursor]) -> None:
    latest = {cursor.run_id: cursor for cursor in cursors}
    if not latest:
        return
    known: set[str] = set()
    for some in batches(list(latest)):
        known |= set(connection.scalars(select(runs.c.run_id).where(runs.c.run_id.in_(some))))
    if moved := [{"run": run_id, "read": latest[run_id].reports_read} for run_id in known]:
        connection.execute(_MOVED_CURSOR, moved)
    if new := [_columns(cursor) for cursor in latest.values() if cursor.run_id not in known]:
        connection.execute(_NEW_CURSOR, new)


_NEW_KEY, _NEW_ENTRY, _NEW_CURSOR = insert(idempotency), insert(events), insert(runs)
_LAST_ENTRY = insert(events).returning(events.c.seq)
_MOVED_CURSOR = update(runs).where(runs.c.run_id == bindparam("run")).values(reports_read=bindparam("read"))
"""Statements of every commit, made once: putting one together takes longer than SQLite takes to carry it out."""


def line_of(row: RowMapping) -> Line:
    return Line(**{name: row[name] for name in Line.__slots__})
