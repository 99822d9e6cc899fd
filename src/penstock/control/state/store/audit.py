"""Who did what, when, from where, and how it went. The table takes new rows only; the database refuses the rest."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import insert, select

from penstock.control.state.store.database import Database
from penstock.control.state.store.tables import audit


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One action of one person. Never a secret: a token is named by its id, a job by its own."""

    at: float
    actor: str
    token_id: str
    tenant: str
    address: str
    action: str
    target: str
    result: str
    seq: int = 0


_LENGTHS = {column.name: getattr(column.type, "length", None) for column in audit.columns}


class AuditRepository:
    """Writes entries and reads them back, the newest first."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, entries: Sequence[AuditEntry]) -> None:
        """All of them in one commit."""
        with self._database.begin() as connection:
            connection.execute(insert(audit), [_row(entry) for entry in entries])

    def page(
        self, *, before: int | None = None, limit: int = 100, tenant: str | None = None, action: str | None = None
    ) -> list[AuditEntry]:
        query = select(audit).order_by(audit.c.seq.desc()).limit(limit)
        if before is not None:
            query = query.where(audit.c.seq < before)
        if tenant is not None:
            query = query.where(audit.c.tenant == tenant)
        if action is not None:
            query = query.where(audit.c.action == action)
        with self._database.connect() as connection:
            return [AuditEntry(**row) for row in connection.execute(query).mappings()]


def _row(entry: AuditEntry) -> dict[str, Any]:
    """As the columns hold it: too long is cut, and a NUL is a thing PostgreSQL has no room for."""
    row = asdict(entry)
    del row["seq"]
    return {
        name: value.replace("\0", "�")[: _LENGTHS[name]] if isinstance(value, str) else value
        for name, value in row.items()
    }
