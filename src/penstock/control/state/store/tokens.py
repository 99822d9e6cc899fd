"""Who may ask: bearer tokens, of which only the hash is kept."""

import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Engine, insert, select, update

from penstock.control.state.store.tables import tokens


class Role(StrEnum):
    """An admin sees and touches everything; a user only what belongs to its tenant."""

    ADMIN = "admin"
    USER = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Somebody who showed a valid token."""

    id: str
    name: str
    role: Role
    tenant: str
    created_at: float = 0.0

    @property
    def sees(self) -> str | None:
        """The one tenant it may look at; ``None`` for all."""
        return None if self.role is Role.ADMIN else self.tenant

    def may_see(self, tenant: str) -> bool:
        return self.sees in (None, tenant)


class TokenRepository:
    """Makes, checks and revokes tokens."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(self, *, name: str, role: Role, tenant: str, now: float) -> tuple[str, Principal]:
        """A new secret, shown once, and whom it stands for."""
        secret = f"penstock_{secrets.token_urlsafe(32)}"
        principal = Principal(id=secrets.token_hex(6), name=name, role=role, tenant=tenant, created_at=now)
        with self._engine.begin() as connection:
            connection.execute(
                insert(tokens).values(
                    id=principal.id, name=name, hash=_hash(secret), role=role.value, tenant=tenant, created_at=now
                )
            )
        return secret, principal

    def check(self, secret: str) -> Principal | None:
        query = select(tokens).where(tokens.c.hash == _hash(secret), tokens.c.revoked_at.is_(None))
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else _principal(row)

    def holder_of(self, secret: str) -> str | None:
        """The id of a valid token."""
        found = self.check(secret)
        return None if found is None else found.id

    def find(self, token_id: str) -> Principal | None:
        """Whom a token stands for that was shown before, unless it has been revoked since."""
        query = select(tokens).where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None))
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else _principal(row)

    def list(self, tenant: str | None = None) -> list[Principal]:
        query = select(tokens).where(tokens.c.revoked_at.is_(None)).order_by(tokens.c.created_at)
        if tenant is not None:
            query = query.where(tokens.c.tenant == tenant)
        with self._engine.connect() as connection:
            return [_principal(row) for row in connection.execute(query)]

    def revoke(self, token_id: str, now: float) -> bool:
        """Whether there was such a token."""
        change = update(tokens).where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None)).values(revoked_at=now)
        with self._engine.begin() as connection:
            return bool(connection.execute(change).rowcount)


def _hash(secret: str) -> str:
    """One round is enough: the secret is random, not chosen by a person."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _principal(row: object) -> Principal:
    return Principal(
        id=row.id, name=row.name, role=Role(row.role), tenant=row.tenant, created_at=row.created_at  # type: ignore[attr-defined]
    )  # fmt: skip
