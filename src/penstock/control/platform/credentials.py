"""What people show to be let in, tokens and sessions, and until when it counts.

One server writes one database, so whatever was revoked or signed out since the start is known here without asking it:
streams and open pages look again all the time, and are told at once besides.
"""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace

from sqlalchemy.exc import SQLAlchemyError

from penstock.control.platform.audit import AuditLog
from penstock.control.platform.tenancy import ANYBODY, Tenancy
from penstock.control.state.journal import Journal
from penstock.control.state.store import Principal, Role, Session
from penstock.wire import UnauthorizedError

_COOKIE = "penstock_session"
SESSION_LIFETIME_S = 7 * 86400.0
_USE_NOTED_EVERY_S = 60.0


def session_cookie(host: str | None) -> str:
    """Return the name of the cookie for what a browser calls this server (its header ``Host``).

    Browsers send a cookie to every port of a host, so the port is part of the name: servers on one machine do not
    replace each other's sessions.
    """
    port = (host or "").rpartition(":")[2]
    return f"{_COOKIE}_{port}" if port.isascii() and port.isdigit() else _COOKIE


class Credentials:
    """Lets people in, and out."""

    def __init__(self, journal: Journal, audit: AuditLog, tenancy: Tenancy = ANYBODY) -> None:
        self._tenancy = tenancy
        self._journal = journal
        self._tokens = journal.store.tokens
        self._sessions = journal.store.sessions
        self._audit = audit
        self._listeners: list[Callable[[], None]] = []
        self._noted: dict[str, float] = {}
        self._lock = threading.Lock()

    def authenticate(self, secret: str, address: str = "") -> Principal:
        """The holder of a valid token; raises :class:`~penstock.wire.UnauthorizedError`."""
        found = self.holder(secret)
        if found is None:
            raise UnauthorizedError(
                "This token is not valid", "a token that was neither revoked nor has expired",
                "Ask an admin for a new one",
            )  # fmt: skip
        self._note_use(found)
        return replace(found, address=address)

    def recognise(self, secret: str, address: str = "") -> Principal | None:
        """The holder of a token that was shown a moment ago; waits for nobody. Others have to :meth:`authenticate`."""
        found = self._unless_expired(self._tokens.remembered(secret.strip()))
        if found is None or self._is_use_due(found, self._journal.now()):
            return None
        return replace(found, address=address)

    def holder(self, secret: str) -> Principal | None:
        """Whoever holds a token, if it is valid."""
        return self._unless_expired(self._tokens.check(secret.strip()))

    def find(self, token_id: str) -> Principal | None:
        """Whoever holds the token with this id, if it is valid."""
        return self._unless_expired(self._tokens.find(token_id))

    def tenants(self) -> frozenset[str]:
        """Return the tenants that have a token."""
        return frozenset(token.tenant for token in self._tokens.list())

    def is_valid(self, who: Principal) -> bool:
        """Whether somebody who was let in would be still; costs nothing to ask."""
        return not (
            self._tokens.is_revoked(who.id)
            or who.is_expired(self._journal.now())
            or (who.session_id and self._sessions.is_ended(who.session_id))
        )

    def still_valid(self, who: Principal) -> Principal:
        """The same principal; raises :class:`~penstock.wire.UnauthorizedError` once it counts no longer."""
        if not self.is_valid(who):
            raise UnauthorizedError("You are signed out", "a token and a session that are valid", "Sign in again")
        return who

    def sign_in(self, who: Principal, address: str) -> str:
        """A session of somebody who was let in; what the browser is to show from now on."""
        now = self._journal.now()
        until = min(now + SESSION_LIFETIME_S, who.expires_at or float("inf"))
        secret, _ = self._sessions.create(who.id, now=now, expires_at=until)
        self._audit.write(replace(who, address=address), "sign in", who.name)
        return secret

    def vouch(self, name: str, role: Role, tenant: str, *, origin: str, lasting_s: float) -> Principal:
        """Somebody whom ``origin`` vouches for: a token that nobody holds, for as long as that counts."""
        if role is not Role.ADMIN:
            self._tenancy.admit(tenant)
        now = self._journal.now()
        _, made = self._tokens.create(
            name=name[:120], role=role, tenant=tenant, now=now, expires_at=now + lasting_s, origin=origin[:200]
        )
        return made

    def refuse(self, actor: str, address: str) -> None:
        """Remember that somebody was not let in."""
        nobody = Principal(id="", name=actor, role=Role.VIEWER, tenant="", address=address)
        self._audit.write(nobody, "sign in", "", "unauthorized")

    def session_holder(self, cookie: str | None, address: str = "") -> Principal | None:
        """Whoever shows this cookie, if they are signed in."""
        session = self._sessions.find(cookie, self._journal.now()) if cookie else None
        found = None if session is None else self.find(session.token_id)
        return None if session is None or found is None else _in_session(found, session, address)

    def sign_out(self, who: Principal) -> None:
        """End a session, in every tab of its browser at once."""
        if who.session_id:
            self._sessions.end(who.session_id, self._journal.now())
            self._audit.write(who, "sign out", who.name)
            if who.origin:
                self._tokens.revoke(who.id, self._journal.now())
            self.tell()

    def revoke(self, token_id: str) -> bool:
        """Make a token worthless; whether there was one."""
        revoked = self._tokens.revoke(token_id, self._journal.now())
        self.tell()
        return revoked

    def subscribe(self, on_end: Callable[[], None]) -> None:
        """Call ``on_end``, from any thread, whenever somebody was signed out or a token revoked."""
        self._listeners.append(on_end)

    def tell(self) -> None:
        for on_end in list(self._listeners):
            on_end()

    def _unless_expired(self, found: Principal | None) -> Principal | None:
        return None if found is None or found.is_expired(self._journal.now()) else found

    def _is_use_due(self, who: Principal, now: float) -> bool:
        return now - self._noted.get(who.id, 0.0) >= _USE_NOTED_EVERY_S

    def _note_use(self, who: Principal) -> None:
        """Once a minute is enough for people; a database that is busy is not asked to wait for it."""
        now = self._journal.now()
        with self._lock:
            if not self._is_use_due(who, now):
                return
            self._noted[who.id] = now
        with contextlib.suppress(SQLAlchemyError):
            self._tokens.used(who.id, now)


def _in_session(who: Principal, session: Session, address: str) -> Principal:
    until = min(session.expires_at, who.expires_at or float("inf"))
    return replace(who, session_id=session.id, expires_at=until, address=address)
