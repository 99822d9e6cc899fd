"""Who may ask: bearer tokens, of which only the hash is kept."""

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import Select, insert, select, update

from penstock.control.state.store.database import Database
from penstock.control.state.store.tables import tokens

_MOST_REMEMBERED = 10_000


class Role(StrEnum):
    """What somebody is on the platform; what each may do is one table (:mod:`penstock.control.platform.access`)."""

    VIEWER = "viewer"
    USER = "user"
    TENANT_ADMIN = "tenant-admin"
    ADMIN = "admin"


class Scope(StrEnum):
    """A part of what a role may do; a token without any has the whole role."""

    READ = "read"
    SUBMIT = "submit"
    STEER = "steer"
    METRICS = "metrics"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Somebody who showed a valid token, or the cookie of a session that was opened with one.

    ``address`` is where the request came from, for the audit log.
    """

    id: str
    name: str
    role: Role
    tenant: str
    created_at: float = 0.0
    scope: frozenset[Scope] = frozenset()
    origin: str = ""
    expires_at: float | None = None
    last_used_at: float | None = field(default=None, compare=False)
    address: str = field(default="", compare=False)
    session_id: str = field(default="", compare=False)

    @property
    def sees(self) -> str | None:
        """The one tenant it may look at; ``None`` for all."""
        return None if self.role is Role.ADMIN else self.tenant

    def may_see(self, tenant: str) -> bool:
        return self.sees in (None, tenant)

    def is_expired(self, now: float) -> bool:
        return self.expires_at is not None and now >= self.expires_at


class TokenRepository:
    """Makes, checks and revokes tokens. Whether one has expired is for who knows the time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._revoked: set[str] = set()
        self._shown: OrderedDict[str, Principal] = OrderedDict()
        """By hash, whom the tokens stand for that were shown last."""

    def create(
        self,
        *,
        name: str,
        role: Role,
        tenant: str,
        now: float,
        scope: Iterable[Scope] = (),
        expires_at: float | None = None,
        origin: str = "",
    ) -> tuple[str, Principal]:
        """A new secret, shown once, and whom it stands for. ``origin`` is who vouched for it, if not an admin here."""
        secret = f"penstock_{secrets.token_urlsafe(32)}"
        principal = Principal(
            id=secrets.token_hex(6), name=name, role=role, tenant=tenant, created_at=now, scope=frozenset(scope),
            origin=origin, expires_at=expires_at,
        )  # fmt: skip
        row = {
            "id": principal.id, "name": name, "hash": _hash(secret), "role": role.value, "tenant": tenant,
            "created_at": now, "scope": " ".join(sorted(principal.scope)), "origin": origin, "expires_at": expires_at,
        }  # fmt: skip
        with self._database.begin() as connection:
            connection.execute(insert(tokens).values(row))
        return secret, principal

    def check(self, secret: str) -> Principal | None:
        digest = _hash(secret)
        found = self._one(select(tokens).where(tokens.c.hash == digest))
        if found is not None:
            self._shown[digest] = found
            if len(self._shown) > _MOST_REMEMBERED:
                self._shown.popitem(last=False)
        return found

    def remembered(self, secret: str) -> Principal | None:
        """Whom a token stands for that was checked before; costs nothing to ask, and nothing is known of others."""
        self._database.check()
        found = self._shown.get(_hash(secret))
        return None if found is None or self.is_revoked(found.id) else found

    def find(self, token_id: str) -> Principal | None:
        """Whom a token stands for that was shown before, unless it has been revoked since."""
        return self._one(select(tokens).where(tokens.c.id == token_id))

    def is_revoked(self, token_id: str) -> bool:
        """Whether this server revoked it; costs nothing to ask. There is one server, so nobody else can have."""
        return token_id in self._revoked

    def list(self, tenant: str | None = None) -> list[Principal]:
        query = select(tokens).where(tokens.c.revoked_at.is_(None)).order_by(tokens.c.created_at)
        if tenant is not None:
            query = query.where(tokens.c.tenant == tenant)
        with self._database.connect() as connection:
            return [_principal(row) for row in connection.execute(query)]

    def used(self, token_id: str, now: float) -> None:
        """Remember when it was last shown."""
        with self._database.begin() as connection:
            connection.execute(update(tokens).where(tokens.c.id == token_id).values(last_used_at=now))

    def revoke(self, token_id: str, now: float) -> bool:
        """Whether there was such a token."""
        change = update(tokens).where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None)).values(revoked_at=now)
        with self._database.begin() as connection:
            changed = bool(connection.execute(change).rowcount)
        if changed:
            self._revoked.add(token_id)
        return changed

    def _one(self, query: Select[Any]) -> Principal | None:
        with self._database.connect() as connection:
            row = connection.execute(query.where(tokens.c.revoked_at.is_(None))).first()
        return None if row is None else _principal(row)


def _hash(secret: str) -> str:
    """One round is enough: the secret is random, not chosen by a person."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _principal(row: Any) -> Principal:
    return Principal(
        id=row.id, name=row.name, role=Role(row.role), tenant=row.tenant, created_at=row.created_at,
        scope=frozenset(map(Scope, row.scope.split())), origin=row.origin, expires_at=row.expires_at,
        last_used_at=row.last_used_at,
    )  # fmt: skip
