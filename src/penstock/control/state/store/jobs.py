"""Jobs as rows that can be listed and filtered: derived from the log, rewritten whenever it is read again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from penstock.control.state.store.archive import put_away
from penstock.control.state.store.database import Database
from penstock.control.state.store.tables import grants, jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job as people list it."""

    id: str
    number: int
    name: str
    tenant: str
    state: str
    spec: Mapping[str, Any]
    quote: Mapping[str, Any] | None
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    run_id: str | None
    devices: Sequence[int]
    failures: int
    reason: str
    tail: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """Devices a job held from ``since`` until ``until``."""

    job_id: str
    generation: int
    run_id: str
    kind: str
    devices: Sequence[int]
    since: float
    until: float | None = None


class JobRepository:
    """The jobs table and the history of grants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def only_tenant(self) -> str | None:
        """The tenant of all jobs there ever were, if they were all one tenant's."""
        query = select(func.min(jobs.c.tenant), func.max(jobs.c.tenant))
        with self._database.connect() as connection:
            first, last = connection.execute(query).one()
        return None if first != last else first

    def publish(
        self,
        rows: Iterable[JobRow],
        held: Mapping[str, GrantRow | None],
        at: float,
        *,
        over: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        """Bring rows up to date; ``held`` says what each of these jobs holds now, ``over`` are records to archive."""
        with self._database.begin() as connection:
            for row in rows:
                _upsert(connection, row)
            for job_id, grant in held.items():
                _note_grant(connection, job_id, grant, at)
            put_away(connection, over)

    def give_up(self, job_id: str, at: float, reason: str) -> None:
        """A job that is listed and that nobody knows anything of any more has failed."""
        with self._database.begin() as connection:
            open_row = update(jobs).where(jobs.c.id == job_id, jobs.c.ended_at.is_(None))
            connection.execute(open_row.values(state="failed", ended_at=at, reason=reason, devices=[]))
            _note_grant(connection, job_id, None, at)

    def find(self, job_id: str) -> JobRow | None:
        found = self._select(select(jobs).where(jobs.c.id == job_id))
        return found[0] if found else None

    def page(
        self,
        *,
        after: int | None = None,
        limit: int = 100,
        tenant: str | None = None,
        states: Sequence[str] = (),
        name: str | None = None,
    ) -> list[JobRow]:
        """Newest first; ``after`` is the number of the last job of the page before."""
        query = select(jobs).order_by(jobs.c.number.desc()).limit(limit)
        if after is not None:
            query = query.where(jobs.c.number < after)
        if tenant is not None:
            query = query.where(jobs.c.tenant == tenant)
        if states:
            query = query.where(jobs.c.state.in_(states))
        if name is not None:
            query = query.where(jobs.c.name == name)
        return self._select(query)

    def history(self, job_id: str) -> list[GrantRow]:
        query = select(grants).where(grants.c.job_id == job_id).order_by(grants.c.generation)
        with self._database.connect() as connection:
            return [GrantRow(**row) for row in connection.execute(query).mappings()]

    def _select(self, query: Any) -> list[JobRow]:
        with self._database.connect() as connection:
            return [JobRow(**row) for row in connection.execute(query).mappings()]


def _upsert(connection: Connection, row: JobRow) -> None:
    values = {name: getattr(row, name) for name in row.__slots__}
    if not connection.execute(update(jobs).where(jobs.c.id == row.id).values(**values)).rowcount:
        connection.execute(insert(jobs).values(**values))


def _note_grant(connection: Connection, job_id: str, grant: GrantRow | None, at: float) -> None:
    ended = update(grants).where(grants.c.job_id == job_id, grants.c.until.is_(None))
    if grant is None:
        connection.execute(ended.values(until=at))
        return
    connection.execute(ended.where(grants.c.generation != grant.generation).values(until=at))
    known = select(grants.c.job_id).where(grants.c.job_id == job_id, grants.c.generation == grant.generation)
    if connection.execute(known).first() is None:
        connection.execute(insert(grants).values(**{name: getattr(grant, name) for name in grant.__slots__}))
