"""What routes ask the framework for: the platform service and whoever is asking."""

from typing import Annotated, cast

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from penstock.control.api.inputs import Name
from penstock.control.api.streams import Streams
from penstock.control.platform.job_references import is_job_id
from penstock.control.platform.service import Platform
from penstock.control.state.store import Principal
from penstock.wire import UnauthorizedError


async def service(request: Request) -> Platform:
    """Without a thread: health is told also when every thread waits for a database."""
    return cast("Platform", request.app.state.platform)


Service = Annotated[Platform, Depends(service)]


async def caller(request: Request, platform: Service) -> Principal:
    """Whoever the bearer token belongs to; only one that was not shown lately is looked up, in a thread."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise UnauthorizedError(
            "The request has no token", "a header Authorization: Bearer TOKEN", "`penstock token create` makes one"
        )
    address = address_of(request)
    known = platform.recognise(secret, address)
    return known if known is not None else await run_in_threadpool(platform.authenticate, secret, address)


def address_of(request: Request) -> str:
    return request.client.host if request.client is not None else ""


Caller = Annotated[Principal, Depends(caller)]


async def meant_job(job_id: Name, platform: Service, who: Caller) -> str:
    """The id of the job that a path names; only a name or a part of an id has to be looked up, in a thread."""
    return job_id if is_job_id(job_id) else await run_in_threadpool(platform.resolve, job_id, who)


JobId = Annotated[str, Depends(meant_job)]


def open_streams(request: Request) -> Streams:
    return cast("Streams", request.app.state.streams)


OpenStreams = Annotated[Streams, Depends(open_streams)]
