"""What the API answers when something of ours fails: a problem like every other, on a connection that stays whole."""

import errno
import json
import logging
import os
from collections.abc import Mapping
from typing import Any

from fastapi.responses import JSONResponse
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.wire import MEDIA_TYPE, UnavailableError, problem

_log = logging.getLogger(__name__)


class ProblemResponse(JSONResponse):
    """A refusal. Written in ASCII, because it may repeat text that no encoding has a place for."""

    media_type = MEDIA_TYPE

    def __init__(self, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(dict(body), status_code=body["status"], headers=headers)

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode("ascii")


def plain_problem(status: int, code: str, message: str, allowed: str = "", hint: str = "") -> dict[str, Any]:
    """The body of a refusal that is none of our errors."""
    return {"status": status, "code": code, "message": message, "allowed": allowed, "hint": hint}


class Faults:
    """Middleware around everything: an exception becomes an answer and a line in the log, and ends there.

    The framework would answer as well, and then raise once more, at which the server hangs up on whoever asked.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:
            _log.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
            if started:
                raise
            await answer_to(error)(scope, receive, send)


def answer_to(error: Exception) -> ProblemResponse:
    """A database that is away and a disk that is full are nobody's mistake; everything else is a fault of ours."""
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return ProblemResponse(
            plain_problem(507, "storage_full", "the server's disk is full", hint="Make room and try again")
        )
    if number in (errno.EROFS, errno.EIO):
        why = f"the server's disk cannot be used: {os.strerror(number)}"
        return ProblemResponse(plain_problem(503, "unavailable", why), _LATER)
    if isinstance(error, OperationalError | PoolTimeoutError):
        busy = UnavailableError("The database does not answer", "a request once it does", "Try again in a few seconds")
        return ProblemResponse(problem(busy), _LATER)
    return ProblemResponse(plain_problem(500, "internal", "something went wrong on our side", hint=_HINT))


_LATER = {"Retry-After": "2"}
_HINT = "The server's log says what"
