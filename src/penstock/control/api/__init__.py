"""The HTTP API: thin routes over the platform service, versioned under /v1, described at /openapi.json."""

import errno
import logging
import os
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from penstock.control.api import jobs, metrics, platform, reports, secrets
from penstock.control.api.limits import Buckets, Callers, RequestLimits
from penstock.control.observe.metrics import Metrics
from penstock.control.platform.service import Platform
from penstock.core import InputError
from penstock.wire import MEDIA_TYPE, problem

_log = logging.getLogger(__name__)

MAX_BODY = 1 << 20


def create_app(
    service: Platform, observed: Metrics, *, max_body: int = MAX_BODY, requests_per_s: float = 50.0, burst: int = 200
) -> FastAPI:
    """The application in front of a platform. Limits hold per token, or per address where there is none."""
    app = FastAPI(title="Penstock", version=version("penstock"), description=__doc__ or "")
    app.state.platform = service
    app.state.metrics = observed
    app.include_router(jobs.router)
    app.include_router(platform.router)
    app.include_router(metrics.router)
    app.include_router(reports.router)
    app.include_router(secrets.router)
    callers = Callers(service.token_id)
    app.add_middleware(
        RequestLimits, max_body=max_body, buckets=Buckets(requests_per_s, burst), callers=callers,
        storage_trouble=service.storage_trouble,
    )  # fmt: skip
    app.add_middleware(metrics.RequestCounter, metrics=observed)
    app.add_exception_handler(InputError, _on_input_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(OSError, _on_disk_error)
    app.add_exception_handler(Exception, _on_fault)
    return app


def _answer(body: dict[str, Any], headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(body, status_code=body["status"], media_type=MEDIA_TYPE, headers=headers)


def _problem(status: int, code: str, message: str, allowed: str = "", hint: str = "") -> dict[str, Any]:
    return {"status": status, "code": code, "message": message, "allowed": allowed, "hint": hint}


async def _on_input_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, InputError)
    body = problem(error)
    return _answer(body, _HEADERS.get(body["status"]))


_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "2"}}


async def _on_invalid(_: Request, error: Exception) -> JSONResponse:
    """What the framework found wrong with the form of a request: the first thing, in our words."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return _answer(_problem(422, "invalid", f"{where}: {first['msg']}", hint="See /docs for what is expected"))


async def _on_http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}.get(error.status_code, "http_error")
    body = _problem(error.status_code, code, str(error.detail), hint="See /docs for what there is")
    return _answer(body, dict(error.headers or {}))


async def _on_disk_error(request: Request, error: Exception) -> JSONResponse:
    """A disk that is full or cannot be written is nobody's mistake; other errors of this kind are ours."""
    number = getattr(error, "errno", None)
    if number in (errno.ENOSPC, errno.EDQUOT):
        return _answer(_problem(507, "storage_full", "the server's disk is full", hint="Make room and try again"))
    if number in (errno.EROFS, errno.EIO):
        body = _problem(503, "unavailable", f"the server's disk cannot be used: {os.strerror(number)}")
        return _answer(body, _HEADERS[503])
    return await _on_fault(request, error)


async def _on_fault(request: Request, error: Exception) -> JSONResponse:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _answer(_problem(500, "internal", "something went wrong on our side", hint="The server's log says what"))


__all__ = ["MAX_BODY", "create_app"]
