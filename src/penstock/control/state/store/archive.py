"""Jobs that are over, whole: everything that was known of them when they ended, out of memory and within reach."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from penstock.control.state.store.database import Database, batches
from penstock.control.state.store.tables import archive, jobs, runs

_PAGE = 500


class ArchiveRepository:
    """Records as plain data; what they mean is the state's business. Rows are written with those of the jobs table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, job_id: str) -> Mapping[str, Any] | None:
        with self._database.connect() as connection:
            found: Mapping[str, Any] | None = connection.scalar(
                select(archive.c.record).where(archive.c.job_id == job_id)
            )
        return found

    def read(self, *, after: int = 0) -> Iterator[Mapping[str, Any]]:
        """Jobs with a number after this one, in order of their numbers; page by page."""
        query = select(jobs.c.number, archive.c.record).join(jobs, jobs.c.id == archive.c.job_id)
        while page := self._page(query.where(jobs.c.number > after).order_by(jobs.c.number).limit(_PAGE)):
            yield from (record for _, record in page)
            after = page[-1][0]

    def _page(self, query: Any) -> Sequence[Any]:
        with self._database.connect() as connection:
            return connection.execute(query).all()


def put_away(connection: Connection, records: Mapping[str, Mapping[str, Any]]) -> None:
    """Archive jobs in the transaction that lists them as over; how far their reports were read is of no more use."""
    if not records:
        return
    for some in batches(list(records)):
        connection.execute(delete(archive).where(archive.c.job_id.in_(some)))
        connection.execute(delete(runs).where(runs.c.job_id.in_(some)))
    connection.execute(insert(archive), [{"job_id": job_id, "record": record} for job_id, record in records.items()])
