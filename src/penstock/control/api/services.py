"""What every route needs, in one place, and who is asking."""

import threading
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Request

from penstock.control.loop.reconciler import Reconciler
from penstock.control.observe.metrics import Metrics
from penstock.control.platform.service import Desk
from penstock.control.state.journal import Journal
from penstock.control.state.store import Principal, Role
from penstock.wire import ForbiddenError, UnauthorizedError


@dataclass(slots=True)
class Services:
    """The platform behind the API. ``stopping`` ends open streams when the server goes down."""

    journal: Journal
    reconciler: Reconciler
    desk: Desk
    stopping: threading.Event = field(default_factory=threading.Event)
    metrics: Metrics = field(init=False)

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.journal, self.reconciler)


def services(request: Request) -> Services:
    return cast("Services", request.app.state.services)


Platform = Annotated[Services, Depends(services)]


def principal(request: Request, platform: Platform) -> Principal:
    """Whoever the bearer token belongs to."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise UnauthorizedError(
            "a request without a token", "Authorization: Bearer TOKEN", "`penstock token` makes one"
        )
    found = platform.journal.store.tokens.check(secret.strip())
    if found is None:
        raise UnauthorizedError("a token that is not valid here", "a token that was not revoked", "Ask for a new one")
    return found


Who = Annotated[Principal, Depends(principal)]


def admin(who: Who) -> Principal:
    if who.role is not Role.ADMIN:
        raise ForbiddenError(f"a token of role {who.role}", "the role admin", "Ask an admin")
    return who


Admin = Annotated[Principal, Depends(admin)]
