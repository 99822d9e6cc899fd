"""Jobs as rows that can be listed and filtered: derived from the log, rewritten whenever it is read again."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, bindparam, func, insert, select, update

from penstock.control.state.evaluations import EVALUATION_PREFIX
from penstock.control.state.store.archive import put_away
from penstock.control.state.store.database import Database, batches
from penstock.control.state.store.outcomes import keep_outcomes
from penstock.control.state.store.tables import grants, job_counts, jobs


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


class ArrayMember(NamedTuple):
    """A job of an array: what a line about the whole array is made of. The columns are in this order."""

    id: str
    number: int
    name: str
    tenant: str
    state: str
    submitted_at: float
    ended_at: float | None
    devices: Sequence[int]


class JobRepository:
    """The jobs table and the history of grants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def only_tenant(self) -> str | None:
        """The tenant of all jobs there ever were, if they were all one tenant's."""
        query = select(func.min(job_counts.c.tenant), func.max(job_counts.c.tenant))
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
        listed = list(rows)
        with self._database.begin() as connection:
            _write_rows(connection, listed)
            _note_grants(connection, held, at)
            put_away(connection, over)
            keep_outcomes(connection, [(row, over[row.id]) for row in listed if row.id in over])

    def give_up(self, job_id: str, at: float, reason: str) -> None:
        """A job that is listed and that nobody knows anything of any more has failed."""
        with self._database.begin() as connection:
            found = connection.execute(select(jobs).where(jobs.c.id == job_id)).mappings().first()
            if found is not None and found["ended_at"] is None:
                failed = {"state": "failed", "ended_at": at, "reason": reason, "devices": []}
                _write_rows(connection, [JobRow(**{**found, **failed})])
                _note_grants(connection, {job_id: None}, at)

    def find(self, job_id: str) -> JobRow | None:
        found = self._select(select(jobs).where(jobs.c.id == job_id))
        return found[0] if found else None

    def beginning_with(self, prefix: str, *, tenant: str | None, limit: int) -> list[str]:
        """Ids that begin so, in their order."""
        query = select(jobs.c.id).where(jobs.c.id.startswith(prefix, autoescape=True)).order_by(jobs.c.id).limit(limit)
        if tenant is not None:
            query = query.where(jobs.c.tenant == tenant)
        with self._database.connect() as connection:
            return [str(job_id) for job_id in connection.execute(query).scalars()]

    def page(
        self,
        *,
        after: int | None = None,
        limit: int = 100,
        tenant: str | None = None,
        states: Sequence[str] = (),
        name: str | None = None,
        array: str | None = None,
        evaluations: bool = True,
    ) -> list[JobRow]:
        """Newest first; ``after`` is the number of the last job of the page before."""
        query = select(jobs).order_by(jobs.c.number.desc()).limit(limit)
        if array is not None:
            query = query.where(_is_of(array))
        if not evaluations:
            query = query.where(~jobs.c.id.startswith(EVALUATION_PREFIX))
        if after is not None:
            query = query.where(jobs.c.number < after)
        if tenant is not None:
            query = query.where(jobs.c.tenant == tenant)
        if name is not None:
            query = query.where(jobs.c.name == name)
        if not states:
            return self._select(query)
        found = [row for state in set(states) for row in self._select(query.where(jobs.c.state == state))]
        return sorted(found, key=lambda row: -row.number)[:limit]

    def members(self, array: str) -> list[ArrayMember]:
        """The jobs of an array that are listed."""
        columns = [jobs.c[name] for name in ArrayMember._fields]
        with self._database.connect() as connection:
            return [ArrayMember._make(row) for row in connection.execute(select(*columns).where(_is_of(array)))]

    def newest_in_array(self, name: str, *, tenant: str | None = None) -> str | None:
        """Return the id of the newest listed job of an array of that name."""
        query = select(jobs.c.id).where(jobs.c.name.between(*_indexed(name)), jobs.c.id.like("j-%-%"))
        if tenant is not None:
            query = query.where(jobs.c.tenant == tenant)
        with self._database.connect() as connection:
            return connection.execute(query.order_by(jobs.c.number.desc()).limit(1)).scalar()

    def history(self, job_id: str) -> list[GrantRow]:
        query = select(grants).where(grants.c.job_id == job_id).order_by(grants.c.generation)
        with self._database.connect() as connection:
            return [GrantRow(**row) for row in connection.execute(query).mappings()]

    def _select(self, query: Any) -> list[JobRow]:
        with self._database.connect() as connection:
            return [JobRow(**row) for row in connection.execute(query).mappings()]


def _is_of(array: str) -> ColumnElement[bool]:
    """Ids of an array's jobs are its own with an index; a range of them is found by the index over ids."""
    return jobs.c.id.between(*_indexed(array))


def _indexed(array: str) -> tuple[str, str]:
    """Return the first and the last text of the form ARRAY-INDEX."""
    return f"{array}-0", f"{array}-{10**12 - 1}"


def _write_rows(connection: Connection, rows: Sequence[JobRow]) -> None:
    """Insert or update rows, and count them where they stand now instead of where they stood."""
    stood = _standing(connection, [row.id for row in rows])
    moved: Counter[tuple[str, str]] = Counter()
    new: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    for row in rows:
        values = {name: getattr(row, name) for name in row.__slots__}
        if row.id in stood:
            changed.append({f"new_{name}": value for name, value in values.items()})
            moved[stood[row.id]] -= 1
        else:
            new.append(values)
        moved[row.state, row.tenant] += 1
    if changed:
        connection.execute(_CHANGED_ROW, changed)
    if new:
        connection.execute(insert(jobs), new)
    for (state, tenant), change in moved.items():
        _count(connection, state, tenant, change)


_CHANGED_ROW = (
    update(jobs)
    .where(jobs.c.id == bindparam("new_id"))
    .values({name: bindparam(f"new_{name}", type_=jobs.c[name].type) for name in JobRow.__slots__ if name != "id"})
)


def _standing(connection: Connection, job_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """State and tenant of the jobs that are listed, by id."""
    found: dict[str, tuple[str, str]] = {}
    for some in batches(job_ids):
        query = select(jobs.c.id, jobs.c.state, jobs.c.tenant).where(jobs.c.id.in_(some))
        found |= {row.id: (row.state, row.tenant) for row in connection.execute(query)}
    return found


def _count(connection: Connection, state: str, tenant: str, change: int) -> None:
    if not change:
        return
    known = update(job_counts).where(job_counts.c.state == state, job_counts.c.tenant == tenant)
    if not connection.execute(known.values(many=job_counts.c.many + change)).rowcount:
        connection.execute(insert(job_counts).values(state=state, tenant=tenant, many=change))


def _note_grants(connection: Connection, held: Mapping[str, GrantRow | None], at: float) -> None:
    """End what is not held any more, and begin what is new."""
    known = _known_grants(connection, list(held))
    ended = [
        {"job": job_id, "number": generation}
        for job_id, generation, until in known
        if until is None and not _is_held(held[job_id], generation)
    ]
    if ended:
        row = grants.c.job_id == bindparam("job"), grants.c.generation == bindparam("number")
        connection.execute(update(grants).where(*row).values(until=at), ended)
    there = {(job_id, generation) for job_id, generation, _ in known}
    new = [
        {name: getattr(grant, name) for name in grant.__slots__}
        for grant in held.values()
        if grant is not None and (grant.job_id, grant.generation) not in there
    ]
    if new:
        connection.execute(insert(grants), new)


def _known_grants(connection: Connection, job_ids: Sequence[str]) -> list[tuple[str, int, float | None]]:
    columns = grants.c.job_id, grants.c.generation, grants.c.until
    found: list[tuple[str, int, float | None]] = []
    for some in batches(job_ids):
        query = select(*columns).where(grants.c.job_id.in_(some))
        found += [(job_id, generation, until) for job_id, generation, until in connection.execute(query)]
    return found


def _is_held(grant: GrantRow | None, generation: int) -> bool:
    return grant is not None and grant.generation == generation
