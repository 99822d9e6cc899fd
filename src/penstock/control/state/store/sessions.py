"""Who is signed in to the dashboard: one row for each browser, so that a session ends everywhere at once."""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select, update

from penstock.control.state.store.database import Database
from penstock.control.state.store.tables import sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Somebody signed in from one browser. ``id`` is the hash of what that browser shows."""

    id: str
    token_id: str
    expires_at: float


class SessionRepository:
    """Opens, finds and ends sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ended: set[str] = set()

    def create(self, token_id: str, *, now: float, expires_at: float) -> tuple[str, Session]:
        """A new secret for a cookie, and its session. Those that ran out are forgotten on the way."""
        secret = secrets.token_urlsafe(32)
        session = Session(id=_hash(secret), token_id=token_id, expires_at=expires_at)
        row = {"id": session.id, "token_id": token_id, "created_at": now, "expires_at": expires_at}
        with self._database.begin() as connection:
            connection.execute(delete(sessions).where(sessions.c.expires_at <= now))
            connection.execute(insert(sessions).values(row))
        return secret, session

    def find(self, secret: str, now: float) -> Session | None:
        """The session of a cookie that is still good."""
        query = select(sessions).where(
            sessions.c.id == _hash(secret), sessions.c.ended_at.is_(None), sessions.c.expires_at > now
        )
        with self._database.connect() as connection:
            row: Any = connection.execute(query).first()
        return None if row is None else Session(id=row.id, token_id=row.token_id, expires_at=row.expires_at)

    def end(self, session_id: str, now: float) -> None:
        change = update(sessions).where(sessions.c.id == session_id).values(ended_at=now)
        with self._database.begin() as connection:
            connection.execute(change)
        self._ended.add(session_id)

    def is_ended(self, session_id: str) -> bool:
        """Whether this server ended it; costs nothing to ask."""
        return session_id in self._ended


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
