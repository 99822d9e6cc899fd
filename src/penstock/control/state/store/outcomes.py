"""What became of jobs that are over, as columns: all that a report over a period reads of them, and nothing else.

The whole record of such a job is in the archive; reading thousands of records to count them would take seconds.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, delete, insert, select

from penstock.control.state.store.database import READ_AT_ONCE, Database, batches
from penstock.control.state.store.tables import outcomes

if TYPE_CHECKING:
    from penstock.control.state.store.jobs import JobRow


class OutcomeRow(NamedTuple):
    """One job that is over. Times that never come are infinite; the columns are in this order."""

    id: str
    number: int
    name: str
    tenant: str
    state: str
    submitted_at: float
    started_at: float | None
    ended_at: float
    verdict: str | None
    planned_at: float
    expected_at: float | None
    deadline: float
    failures: int
    reason: str
    energy_j: float | None
    energy_estimated: bool


class OutcomeRepository:
    """Rows are written with those of the archive."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def between(self, since: float, until: float, tenant: str | None = None) -> list[OutcomeRow]:
        """Jobs that were there at some time between the two and are over, in order of their numbers."""
        ended = outcomes.c.ended_at >= since, outcomes.c.submitted_at <= until
        query = select(outcomes).where(*ended).order_by(outcomes.c.number)
        if tenant is not None:
            query = query.where(outcomes.c.tenant == tenant)
        with self._database.connect() as connection:
            return [OutcomeRow._make(row) for row in connection.execute(query).yield_per(READ_AT_ONCE)]


def keep_outcomes(connection: Connection, over: "Sequence[tuple[JobRow, Mapping[str, Any]]]") -> None:
    """Note what became of jobs in the transaction that archives their records."""
    if not over:
        return
    for some in batches([row.id for row, _ in over]):
        connection.execute(delete(outcomes).where(outcomes.c.id.in_(some)))
    connection.execute(insert(outcomes), [_values(row, record) for row, record in over])


def _values(row: "JobRow", record: Mapping[str, Any]) -> dict[str, Any]:
    goal, quote = record["job"]["goal"], row.quote or {}
    return {
        "id": row.id, "number": row.number, "name": row.name, "tenant": row.tenant, "state": row.state,
        "submitted_at": row.submitted_at, "started_at": row.started_at,
        "ended_at": row.submitted_at if row.ended_at is None else row.ended_at,
        "verdict": quote.get("verdict"), "planned_at": float(quote.get("finish_at", math.inf)),
        "expected_at": None if record["expected_at"] is None else float(record["expected_at"]),
        "deadline": float(goal["at"]) if goal["type"] == "Deadline" else math.inf,
        "failures": row.failures, "reason": row.reason, "energy_j": record["energy_j"],
        "energy_estimated": record["energy_estimated"],
    }  # fmt: skip
