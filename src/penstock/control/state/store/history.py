"""The past as people look at it: jobs by what one types, who held what when, and what went wrong.

Reads only. The log stays the truth; these are questions that a picture asks and that one row at a time cannot answer.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, or_, select, type_coerce

from penstock.control.state.store.database import READ_AT_ONCE, Database, batches
from penstock.control.state.store.jobs import JobRow
from penstock.control.state.store.log import Line, line_of
from penstock.control.state.store.tables import SharedJSON, events, grants, job_counts, jobs

ORDERS = {
    "number": jobs.c.number, "name": jobs.c.name, "tenant": jobs.c.tenant, "state": jobs.c.state,
    "submitted_at": jobs.c.number, "ended_at": jobs.c.ended_at,
}  # fmt: skip
"""What a list of jobs can be sorted by, with an index for each; jobs are numbered as they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Which jobs, and which part of them. ``text`` is looked for in name and id."""

    text: str = ""
    states: Sequence[str] = ()
    tenant: str | None = None
    order: str = "number"
    descending: bool = True
    offset: int = 0
    limit: int = 25


@dataclass(frozen=True, slots=True)
class JobMatches:
    """One page of jobs, and how many there are in all."""

    rows: list[JobRow]
    total: int


class Holding(NamedTuple):
    """Devices that a job held for a while; ``until`` is ``None`` while it does. The columns are in this order."""

    job_id: str
    name: str
    tenant: str
    number: int
    generation: int
    devices: Sequence[int]
    since: float
    until: float | None


class History:
    """Questions about what was."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def search(self, wanted: Search) -> JobMatches:
        conditions = _conditions(wanted)
        column = ORDERS.get(wanted.order, jobs.c.number)
        order = [column.desc(), jobs.c.number.desc()] if wanted.descending else [column.asc(), jobs.c.number.asc()]
        query = select(jobs).where(*conditions).limit(wanted.limit).offset(wanted.offset).order_by(*order)
        with self._database.connect() as connection:
            rows = [JobRow(**row) for row in connection.execute(query).mappings()]
            return JobMatches(rows, self._total(connection, wanted, conditions))

    def _total(self, connection: Connection, wanted: Search, conditions: Sequence[ColumnElement[bool]]) -> int:
        """Counted one by one only where a text is looked for."""
        if wanted.text:
            return connection.scalar(select(func.count()).select_from(jobs).where(*conditions)) or 0
        query = select(func.sum(job_counts.c.many))
        if wanted.states:
            query = query.where(job_counts.c.state.in_(wanted.states))
        if wanted.tenant is not None:
            query = query.where(job_counts.c.tenant == wanted.tenant)
        return int(connection.scalar(query) or 0)

    def counts(self, tenant: str | None = None) -> dict[str, int]:
        """How many jobs there are in each state."""
        totals: Counter[str] = Counter()
        for states in self.counts_by_tenant(tenant).values():
            totals.update(states)
        return dict(totals)

    def counts_by_tenant(self, tenant: str | None = None) -> dict[str, dict[str, int]]:
        """How many jobs each tenant has in each state."""
        query = select(job_counts).where(job_counts.c.many > 0)
        if tenant is not None:
            query = query.where(job_counts.c.tenant == tenant)
        found: dict[str, dict[str, int]] = {}
        with self._database.connect() as connection:
            for row in connection.execute(query):
                found.setdefault(row.tenant, {})[row.state] = row.many
        return found

    def there(self, since: float, until: float, *, limit: int) -> list[JobRow]:
        """Jobs that were there at some time between the two, in order of submission."""
        ended = or_(jobs.c.ended_at.is_(None), jobs.c.ended_at >= since)
        query = select(jobs).where(jobs.c.submitted_at <= until, ended).order_by(jobs.c.number).limit(limit)
        with self._database.connect() as connection:
            return [JobRow(**row) for row in connection.execute(query).mappings()]

    def waits(self, since: float, until: float) -> list[tuple[float, float]]:
        """From when to when each job waited for its first devices, as far as that lies between the two."""
        times = select(jobs.c.submitted_at, func.coalesce(jobs.c.started_at, jobs.c.ended_at, until))
        never_ran = times.where(jobs.c.started_at.is_(None), jobs.c.submitted_at <= until)
        queries = (
            times.where(jobs.c.started_at >= since, jobs.c.submitted_at <= until),
            never_ran.where(jobs.c.ended_at >= since),
            never_ran.where(jobs.c.ended_at.is_(None)),
        )
        with self._database.connect() as connection:
            found = [row for query in queries for row in connection.execute(query)]
        return [(max(start, since), min(end, until)) for start, end in found]

    def holdings(self, since: float, until: float, *, job_id: str | None = None) -> list[Holding]:
        """Everything held at some time between the two, in order of time."""
        query = (
            select(
                grants.c.job_id, jobs.c.name, jobs.c.tenant, jobs.c.number, grants.c.generation,
                type_coerce(grants.c.devices, SharedJSON), grants.c.since, grants.c.until,
            )
            .join(jobs, jobs.c.id == grants.c.job_id)
            .where(grants.c.since <= until, or_(grants.c.until.is_(None), grants.c.until >= since))
            .order_by(grants.c.since, grants.c.job_id, grants.c.generation)
        )  # fmt: skip
        if job_id is not None:
            query = query.where(grants.c.job_id == job_id)
        with self._database.connect() as connection:
            return [Holding._make(row) for row in connection.execute(query).yield_per(READ_AT_ONCE)]

    def lines(
        self, kinds: Sequence[str], *, since: float = 0.0, tenant: str | None = None, limit: int = 1000
    ) -> list[Line]:
        """The latest entries of some kinds, oldest first; with a tenant, its own and those about nobody's job."""
        query = select(events).where(events.c.kind.in_(kinds), events.c.at >= since)
        if tenant is not None:
            query = query.where(or_(events.c.tenant == tenant, events.c.tenant.is_(None)))
        with self._database.connect() as connection:
            found = connection.execute(query.order_by(events.c.seq.desc()).limit(limit)).mappings().all()
            return [line_of(row) for row in found][::-1]

    def lines_of(self, job_ids: Sequence[str], kinds: Sequence[str], *, since: float) -> list[Line]:
        """Entries of some kinds about these jobs, in order."""
        found: list[Line] = []
        with self._database.connect() as connection:
            for some in batches(job_ids):
                query = select(events).where(events.c.job_id.in_(some), events.c.kind.in_(kinds), events.c.at >= since)
                found += [line_of(row) for row in connection.execute(query).mappings().all()]
        return sorted(found, key=lambda line: line.seq)


def _conditions(wanted: Search) -> list[ColumnElement[bool]]:
    conditions: list[Any] = []
    if wanted.text:
        pattern = f"%{_plain(wanted.text.lower())}%"
        conditions.append(or_(*(func.lower(column).like(pattern, escape="\\") for column in (jobs.c.name, jobs.c.id))))
    if wanted.states:
        conditions.append(jobs.c.state.in_(wanted.states))
    if wanted.tenant is not None:
        conditions.append(jobs.c.tenant == wanted.tenant)
    return conditions


def _plain(text: str) -> str:
    """Without the meaning that SQL gives to some characters."""
    for character in "\\%_":
        text = text.replace(character, f"\\{character}")
    return text
