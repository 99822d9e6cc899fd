"""The platform itself: its log, its nodes, who may use it, and whether it is well."""

from importlib.metadata import version as installed
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, StreamingResponse

from penstock.control.api.jobs import LastEvent
from penstock.control.api.services import Admin, Platform, Who
from penstock.control.api.streams import Message, resume_point, stream
from penstock.control.platform.presenter import event_view, node_views, token_view
from penstock.control.state.store import Role
from penstock.core import InputError
from penstock.wire import EventPage, HealthView, MissingError, NodeView, TokenRequest, TokenView, VersionView

router = APIRouter(tags=["platform"])
_PAGE = 500


@router.get("/healthz")
def healthz() -> HealthView:
    """Whether the process answers."""
    return HealthView(status="ok")


@router.get("/readyz")
def readyz(platform: Platform) -> JSONResponse:
    """Whether the platform does its work; 503 with the trouble if not."""
    trouble = "stopping" if platform.stopping.is_set() else platform.reconciler.trouble
    body = HealthView(status="not ready" if trouble else "ready", trouble=trouble)
    return JSONResponse(body.model_dump(), status_code=503 if trouble else 200)


@router.get("/version")
def version() -> VersionView:
    return VersionView(version=installed("penstock"))


@router.get("/v1/events")
def events(
    platform: Platform,
    who: Who,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> EventPage:
    """The log, as far as it concerns whoever asks."""
    lines = platform.journal.store.log.page(after=after, limit=limit, tenant=who.sees)
    return EventPage(events=[event_view(line) for line in lines], next=lines[-1].seq if lines else after)


@router.get("/v1/events/stream", response_class=StreamingResponse)
def follow_events(
    platform: Platform, who: Who, after: Annotated[int | None, Query(ge=0)] = None, last_event_id: LastEvent = None
) -> StreamingResponse:
    """The log as it grows, as server-sent events; from now on unless told from where."""
    start = resume_point(last_event_id, None if after is None else str(after))
    if start is not None and not start.isdigit():
        raise InputError(f"the last event id {start!r}", "the number of an event")
    seen = platform.journal.seq if start is None else int(start)

    def more() -> tuple[list[Message], bool]:
        nonlocal seen
        if platform.journal.seq <= seen:
            return [], False
        latest = platform.journal.seq
        lines = platform.journal.store.log.page(after=seen, limit=_PAGE, tenant=who.sees)
        seen = lines[-1].seq if len(lines) == _PAGE else max(latest, lines[-1].seq if lines else 0)
        return [(str(line.seq), line.kind, event_view(line).model_dump(mode="json")) for line in lines], False

    return stream(platform, more)


@router.get("/v1/nodes")
def nodes(platform: Platform, who: Who) -> list[NodeView]:
    return node_views(platform, who)


@router.post("/v1/nodes/{name}/drain")
def drain(name: str, platform: Platform, who: Admin) -> list[NodeView]:
    """No more jobs on a node; those that run there save their state and go elsewhere."""
    platform.desk.drain(name)
    return node_views(platform, who)


@router.post("/v1/nodes/{name}/undrain")
def undrain(name: str, platform: Platform, who: Admin) -> list[NodeView]:
    platform.desk.undrain(name)
    return node_views(platform, who)


@router.get("/v1/tokens")
def tokens(platform: Platform, who: Admin) -> list[TokenView]:
    return [token_view(token) for token in platform.journal.store.tokens.list(who.sees)]


@router.post("/v1/tokens", status_code=201)
def make_token(wanted: TokenRequest, platform: Platform, _: Admin) -> TokenView:
    """A new token. Its secret is in this answer and nowhere else."""
    secret, token = platform.journal.store.tokens.create(
        name=wanted.name, role=Role(wanted.role), tenant=wanted.tenant, now=platform.journal.now()
    )
    return token_view(token, secret)


@router.delete("/v1/tokens/{token_id}", status_code=204)
def revoke_token(token_id: str, platform: Platform, _: Admin) -> None:
    if not platform.journal.store.tokens.revoke(token_id, platform.journal.now()):
        raise MissingError(f"no token {token_id!r}", "the id of a token that is valid", "GET /v1/tokens lists them")
