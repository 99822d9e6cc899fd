"""Routes about the platform itself: its log, its nodes, what it does, and whether it is well."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from penstock.control.api.dependencies import Caller, OpenStreams, Service
from penstock.control.api.inputs import (
    Before,
    Bookkeeping,
    EventLimit,
    EventNumber,
    LastEvent,
    Name,
    Newest,
    event_number,
)
from penstock.control.api.streams import Feed, Message, resume_point
from penstock.control.platform.access import Action, require
from penstock.wire import DrainedJob, DrainRequest, EventPage, HealthView, NodeView, OverviewView, VersionView

router = APIRouter(tags=["platform"])


@router.get("/healthz")
async def healthz() -> HealthView:
    """Whether the process answers."""
    return HealthView(status="ok")


@router.get("/readyz")
async def readyz(platform: Service) -> JSONResponse:
    """Whether the platform does its work; 503 with the trouble if not."""
    health = platform.health()
    return JSONResponse(health.model_dump(), status_code=503 if health.trouble else 200)


@router.get("/version")
async def version(platform: Service) -> VersionView:
    return platform.version()


@router.get("/v1/overview")
def overview(
    platform: Service,
    who: Caller,
    jobs: Annotated[int, Query(ge=0, le=1000)] = 50,
    events: Annotated[int, Query(ge=0, le=100)] = 8,
) -> OverviewView:
    """Devices, queue, active jobs with their promises and forecasts, and the latest news."""
    return platform.overview(who, jobs=jobs, events=events)


@router.get("/v1/events")
def events(
    platform: Service,
    who: Caller,
    after: EventNumber = 0,
    before: Before = None,
    newest: Newest = False,
    bookkeeping: Bookkeeping = True,
    limit: EventLimit = 100,
) -> EventPage:
    """The log, as far as the caller may see it."""
    return platform.events(who, after=after, before=before, newest=newest, bookkeeping=bookkeeping, limit=limit)


@router.get("/v1/events/stream", response_class=StreamingResponse)
def follow_events(
    platform: Service,
    who: Caller,
    streams: OpenStreams,
    after: EventNumber | None = None,
    last_event_id: LastEvent = None,
) -> StreamingResponse:
    """The log as it grows, as server-sent events; from now on unless told from where."""
    start = resume_point(last_event_id, None if after is None else str(after))
    position = platform.last_event if start is None else event_number(start)
    require(who, Action.LOOK)

    async def more() -> tuple[list[Message], bool]:
        nonlocal position
        page = await run_in_threadpool(platform.new_events, who, position)
        position = page.next
        return [(str(event.seq), event.kind, event.model_dump(mode="json")) for event in page.events], False

    return streams.response(who, Feed(more, news=lambda: platform.last_event > position))


@router.get("/v1/nodes")
def nodes(platform: Service, who: Caller) -> list[NodeView]:
    return platform.nodes(who)


@router.post("/v1/nodes/{name}/drain")
def drain(name: Name, platform: Service, who: Caller, how: DrainRequest | None = None) -> list[NodeView]:
    """No more jobs on a node; those that can resume save their state and leave it, the others end there first."""
    return platform.drain(name, who, how)


@router.get("/v1/nodes/{name}/drain")
def drained_jobs(name: Name, platform: Service, who: Caller) -> list[DrainedJob]:
    """The jobs that draining a node would stop, with what each of them would lose; nothing is changed."""
    return platform.drained_jobs(name, who)


@router.post("/v1/nodes/{name}/undrain")
def undrain(name: Name, platform: Service, who: Caller) -> list[NodeView]:
    """Jobs may run on a drained node again."""
    return platform.undrain(name, who)
