"""``/metrics`` for Prometheus, and the middleware that counts requests.

While the server has one tenant, callers on this machine need no token. Every other caller (from elsewhere, through a
proxy that says so, under another host name, or beside a second tenant, whose jobs run on this machine) shows an admin's
token, unless the server is told that none is needed: figures by tenant are that tenant's business.
"""

import time
from ipaddress import ip_address

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from prometheus_client.exposition import choose_encoder
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.control.api.dependencies import Service, caller
from penstock.control.observe.metrics import OTHER, Metrics
from penstock.control.platform.access import Action, require
from penstock.control.platform.service import Platform

router = APIRouter(tags=["platform"])
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, platform: Service) -> Response:
    """Everything that is measured, in the format of Prometheus.

    A few milliseconds that wait for nothing, so no thread collects: beside threads that plan, each handing over costs.
    """
    observed: Metrics = request.app.state.metrics
    if not (request.app.state.open_metrics or await _is_for_all_here(request, platform, observed)):
        require(await caller(request, platform), Action.MEASURE)
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(observed.registry), media_type=content_type)


async def _is_for_all_here(request: Request, platform: Platform, observed: Metrics) -> bool:
    """Whether the caller is on this machine, and every process there belongs to the one tenant."""
    if "authorization" in request.headers or not _on_this_machine(request):
        return False
    return len(observed.tenants | await run_in_threadpool(platform.credentials.tenants)) < 2


def _on_this_machine(request: Request) -> bool:
    """Whether the caller is here, means this machine, and is not somebody's proxy.

    A page from elsewhere whose name was made to point here would come with that name as its host.
    """
    if request.client is None or "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        return False
    return _is_loopback(request.client.host) and _is_loopback(request.url.hostname or "")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class RequestCounter:
    """Middleware: every request once, by the template of its route, up to the first byte of its answer."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, counted = time.perf_counter(), False

        def count(code: int) -> None:
            nonlocal counted
            if not counted:
                counted = True
                self._metrics.answered(_method(scope), _route(scope), code, time.perf_counter() - began)

        async def counting_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                count(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, counting_send)
        except Exception:
            count(500)
            raise


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in _METHODS else OTHER


def _route(scope: Scope) -> str:
    """The template, never the path: a path has as many values as there are jobs."""
    route = scope.get("route")
    return route.path if isinstance(route, APIRoute) else OTHER
