"""The HTTP API: thin routes over the platform service, versioned under /v1, described at /openapi.json."""

from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from penstock.control.api import (
    administration,
    executions,
    files,
    jobs,
    metrics,
    platform,
    policy,
    reference,
    reports,
    secrets,
    whatif,
)
from penstock.control.api.faults import Faults, ProblemResponse, plain_problem
from penstock.control.api.headers import SecurityHeaders
from penstock.control.api.limits import Buckets, Callers, RequestLimits
from penstock.control.api.stream_slots import StreamSlots
from penstock.control.api.streams import Streams
from penstock.control.observe.metrics import Metrics
from penstock.control.platform.service import Platform
from penstock.core import InputError
from penstock.wire import problem

MAX_BODY = 1 << 20
_PARTS = (
    jobs, executions, files, platform, administration, metrics, policy, reports, whatif, secrets, reference,
)  # fmt: skip
"""Their routes are taken as they are: included routers would be built a second time, by whoever asks first."""


def create_app(
    service: Platform,
    observed: Metrics,
    *,
    max_body: int = MAX_BODY,
    requests_per_s: float = 50.0,
    burst: int = 200,
    max_streams: int = 2000,
    max_streams_per_token: int = 200,
    open_metrics: bool = False,
) -> FastAPI:
    """The application in front of a platform. Limits hold per token or session, or per address where there is none."""
    app = FastAPI(
        title="Penstock", version=version("penstock"), description=__doc__ or "", docs_url=None, redoc_url=None
    )
    app.state.platform = service
    app.state.metrics = observed
    app.state.open_metrics = open_metrics
    app.state.streams = Streams(service, StreamSlots(max_streams, max_streams_per_token))
    app.router.routes.extend(route for part in _PARTS for route in part.router.routes)
    callers = Callers(service.credentials)
    app.add_middleware(
        RequestLimits, max_body=max_body, buckets=Buckets(requests_per_s, burst), callers=callers,
        quotas=service.quotas, storage_trouble=service.storage_trouble,
    )  # fmt: skip
    app.add_middleware(metrics.RequestCounter, metrics=observed)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Faults)
    app.add_exception_handler(InputError, _on_input_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    return app


async def _on_input_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, InputError)
    body = problem(error)
    return ProblemResponse(body, _HEADERS.get(body["status"]))


_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "5"}, 503: {"Retry-After": "2"}}


async def _on_invalid(_: Request, error: Exception) -> Response:
    """What the framework found wrong with the form of a request: the first thing, in our words."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return ProblemResponse(
        plain_problem(422, "invalid", f"{where}: {first['msg']}", hint="See /docs for what is expected")
    )


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}.get(error.status_code, "http_error")
    body = plain_problem(error.status_code, code, str(error.detail), hint="See /docs for what there is")
    return ProblemResponse(body, dict(error.headers or {}))


__all__ = ["MAX_BODY", "create_app"]
