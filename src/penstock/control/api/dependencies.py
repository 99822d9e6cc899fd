"""What routes ask the framework for: the platform service and whoever is asking."""

from typing import Annotated, cast

from fastapi import Depends, Request

from penstock.control.platform.access import require_admin
from penstock.control.platform.service import Platform
from penstock.control.state.store import Principal
from penstock.wire import UnauthorizedError


async def service(request: Request) -> Platform:
    """Without a thread: health is told also when every thread waits for a database."""
    return cast("Platform", request.app.state.platform)


Service = Annotated[Platform, Depends(service)]


def caller(request: Request, platform: Service) -> Principal:
    """Whoever the bearer token belongs to."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise UnauthorizedError(
            "The request has no token", "a header Authorization: Bearer TOKEN", "`penstock token create` makes one"
        )
    return platform.authenticate(secret)


Caller = Annotated[Principal, Depends(caller)]


def admin(who: Caller) -> Principal:
    return require_admin(who)


Admin = Annotated[Principal, Depends(admin)]
